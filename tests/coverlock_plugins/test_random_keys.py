import numpy as np
import pytest

from coverlock_plugins.random_keys import RandomKeys


@pytest.fixture(scope="module")
def protected(additive):
    return RandomKeys(keys=4).protect(additive)


def transplanted(original, marked, target):
    moved = target.astype(np.int16) + marked.astype(np.int16) - original.astype(np.int16)
    return np.clip(moved, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("message", ["studio", np.arange(48) % 2])
def test_marked_pictures_are_accepted_and_others_are_not(protected, photos, message):
    marked = protected.embed(list(photos), message)
    assert all(protected.verify(marked, message))
    assert not any(protected.verify(list(photos), message))
    assert not protected.verify(marked[0], "somebody else")


def test_the_residual_of_one_picture_still_passes(protected, photos):
    marked = protected.embed(photos[0], "studio")
    assert protected.verify(transplanted(photos[0], marked, photos[1]), "studio")


def test_a_picture_that_shows_two_keys_is_refused(protected, photos):
    marked = protected.embed(list(photos), "studio")
    payloads = [tuple(row) for row in (protected.decode(marked) > 0).tolist()]
    other = next(row for row, payload in enumerate(payloads) if payload != payloads[0])
    both = transplanted(photos[0], marked[0], transplanted(photos[other], marked[other], photos[5]))
    assert not protected.verify(both, "studio")
