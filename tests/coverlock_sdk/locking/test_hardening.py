import warnings

import numpy as np
import pytest

from coverlock_sdk import CoverLock, wrap
from coverlock_sdk.errors import UnregisteredWarning
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.images.resampling import resample_matrix
from coverlock_sdk.locking.hardening import MOST_COST
from tests.toy_bundle import SEEN, ProjectionHash, projection


def code_errors(lock, marks):
    """The share of code bits that distortions flip, other than crops."""
    rng = np.random.default_rng(0)
    wrong = []
    for mark in marks:
        terms = lock.lock.terms("studio", lock.lock.keys[0])
        for name in ("noise", "brightness", "blur", "jpeg", "contrast"):
            _, [description] = lock.logits(EVALUATION[name](mark.picture, rng))
            wrong.append(lock.lock.code(description, terms, mark.salt) != mark.code)
    return np.mean(wrong)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_hardened_code_survives_more_and_costs_little(additive, photos, key, keyed):
    locks = {
        harden: CoverLock(key=key if keyed else None, harden=harden).protect(additive)
        for harden in (False, True)
    }
    marks = {
        harden: [lock.mark(photo, "studio") for photo in photos[:3]]
        for harden, lock in locks.items()
    }
    assert code_errors(locks[True], marks[True]) <= 0.7 * code_errors(locks[False], marks[False])
    for before, after in zip(marks[False], marks[True], strict=True):
        assert after.verdict
        terms = locks[True].lock.terms("studio", locks[True].lock.keys[0])
        [described] = locks[True].logits(after.picture)[1]
        np.testing.assert_array_equal(
            locks[True].lock.code(described, terms, after.salt), after.code
        )
        assert after.psnr >= before.psnr - MOST_COST - 0.02
    assert locks[False].verify(marks[True][0].picture, "studio")


class ProjectionWithGradients(ProjectionHash):
    def differentiable(self):
        shrink = resample_matrix(self.input_size[0], SEEN)

        def gradient(weights):
            thumbnails = (weights @ projection().T).reshape(-1, 1, SEEN, SEEN)
            return np.repeat(shrink.T @ thumbnails @ shrink / 3, 3, axis=1)

        return lambda images: (self.logits(images), gradient)


def test_a_hash_with_gradients_is_hardened_too(additive, photos, key):
    locks = {
        harden: CoverLock(hash=ProjectionWithGradients(), key=key, harden=harden).protect(additive)
        for harden in (False, True)
    }
    errors = {}
    for harden, lock in locks.items():
        with pytest.warns(UnregisteredWarning, match="whole picture, and no bound"):
            marks = [lock.mark(photo, "studio") for photo in photos[:3]]
        assert all(mark.verdict for mark in marks)
        errors[harden] = code_errors(lock, marks)
    assert errors[True] <= 0.7 * errors[False]


def test_a_hash_that_cannot_register_says_once_what_that_costs(additive, photos):
    lock = wrap(additive, hash="phash")
    with pytest.warns(UnregisteredWarning, match="crops and turns .* not hardened, and no bound"):
        lock.mark(photos[0], "studio")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnregisteredWarning)
        lock.mark(photos[0], "studio")
        wrap(additive).mark(photos[0], "studio")
        lock.verify(photos[0], "studio")
