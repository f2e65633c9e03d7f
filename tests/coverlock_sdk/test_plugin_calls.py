"""What a plugin returns is held to the contract; what is wrong with it is said in a sentence."""

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import CoverLock, ImageHash, wrap
from coverlock_sdk.errors import PluginError
from coverlock_sdk.plugin_calls import decode, embed, hash_logits
from coverlock_sdk.testing import natural_pictures
from tests.coverlock_sdk.kit_subjects import AnySize, HardBits, Probabilities, SecretBits, Sound

VIEWS = np.moveaxis(natural_pictures(2, (64, 64)), -1, 1).astype(np.float32) / 255
PAYLOADS = np.random.RandomState(0).randint(0, 2, (2, 64)).astype(np.uint8)


def returning(value) -> Sound:
    """A watermark whose methods return what ``value`` makes of the right answer."""

    class Returning(Sound):
        name = "odd"

        def embed(self, images, payloads):
            return value(super().embed(images, payloads))

        def decode(self, images):
            return value(super().decode(images))

    return Returning()


class Foreign:
    """A tensor of another library."""

    def detach(self): ...


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (lambda a: None, r"'odd' returned None \(is a 'return' missing\?\) from {}, not a NumPy"),
        (lambda a: list(a), "'odd' returned a list from {}, not a NumPy array"),
        (lambda a: Foreign(), r"a Foreign \(add .detach\(\).cpu\(\).numpy\(\)\) from {}"),
        (lambda a: a[:, :-1], r"'odd' returned shape \(2, .*\) from {}, not \(2, "),
        (lambda a: a[0], r"returned shape \(.*\) from {}, not \(2, "),
        (lambda a: a.astype(str), "'odd' returned <U32 from {}, not numbers"),
        (lambda a: a * 1j, "'odd' returned complex64 from {}, not numbers"),
        (lambda a: a / 0 * 0, "'odd' returned NaN or infinite values from {}"),
        (lambda a: {}["weights"], "'odd' failed in {}: KeyError: 'weights'"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_no_array_of_the_right_shape_is_named(value, sentence):
    with pytest.raises(PluginError, match=sentence.format("embed")):
        embed(returning(value), VIEWS, PAYLOADS)
    with pytest.raises(PluginError, match=sentence.format("decode")):
        decode(returning(value), VIEWS)


@pytest.mark.parametrize("value", [lambda a: (255 * a).astype(np.uint8), lambda a: 255 * a])
def test_pictures_in_another_range_are_refused(value):
    with pytest.raises(
        PluginError, match=r"pictures from .* to 2\d\d.* from embed: .* in \[0, 1\]"
    ):
        embed(returning(value), VIEWS, PAYLOADS)


def test_arguments_cannot_be_spoilt_by_a_plugin():
    class Careless(Sound):
        def embed(self, images, payloads):
            marked = super().embed(images, payloads)
            images *= 0
            return marked

        def decode(self, images):
            logits = super().decode(images)
            images *= 0
            return logits

    pictures = natural_pictures(2, (64, 64))
    careful, careless = wrap(Sound()), wrap(Careless())
    marked = careful.embed(pictures[0], "alice")
    assert np.array_equal(marked, careless.embed(pictures[0], "alice"))
    assert careless.verify(marked, "alice") == careful.verify(marked, "alice")


def test_bits_where_logits_belong_are_refused_with_the_way_out():
    with pytest.raises(PluginError, match="only 0 and 1 from decode.*or set hard_bits = True"):
        wrap(SecretBits()).embed(natural_pictures(1, (64, 64))[0], "alice")
    with pytest.raises(PluginError, match=r"'probabilities' returned values from 0 to 1.*log\(p"):
        wrap(Probabilities()).embed(natural_pictures(1, (64, 64))[0], "alice")


def test_a_blank_picture_is_rejected_and_no_error():
    class Correlation(Sound):
        def decode(self, images):
            return super().decode(images) * images.any()

    black = np.zeros((64, 64, 3), np.uint8)
    for watermark in (Correlation(), HardBits()):
        assert not wrap(watermark).verify(black, "alice")


def test_a_hash_that_returns_bits_is_told_to_return_logits():
    class Bits(ImageHash):
        name, input_size = "bits", (16, 17)

        def logits(self, images):
            return (np.diff(images.mean(axis=1), axis=2) > 0).reshape(len(images), 256)

    with pytest.raises(PluginError, match="only 0 and 1 from logits: .*2.0 [*] bits - 1"):
        hash_logits(Bits(), VIEWS)


@pytest.mark.parametrize("rule", ["soft", "hard"])
def test_hard_bits_end_to_end(rule, tmp_path):
    pictures = natural_pictures(3, (64, 64))
    locked = CoverLock(rule=rule).protect(HardBits())
    marked = locked.embed(pictures, "alice")
    assert all(locked.verify(marked, "alice"))
    assert not any(locked.verify(marked, "bob"))
    assert not any(locked.verify(pictures, "alice"))
    assert [found.label for found in locked.identify(marked, ["bob", "alice"])] == ["alice"] * 3
    assert set(np.unique(locked.logits(marked)[0])) == {-1, 1}


SIZES = [(300, 400), (800, 600), (300, 400), (243, 357)]


@pytest.fixture(scope="module")
def mixed():
    """Pictures of three sizes, in colour and grey."""
    images = [Image.fromarray(natural_pictures(1, s, seed=i)[0]) for i, s in enumerate(SIZES)]
    return [*images, images[0].convert("L")]


def test_any_size_end_to_end(mixed):
    locked = wrap(AnySize())
    marked = locked.embed(mixed, "alice")
    assert [(image.mode, image.size) for image in marked] == [(i.mode, i.size) for i in mixed]
    verdicts = locked.verify(marked, "alice")
    assert all(verdicts)
    assert verdicts == [locked.verify(image, "alice") for image in marked]
    assert not any(locked.verify(marked, "bob"))
    assert not any(locked.verify(mixed, "alice"))
    assert [found.label for found in locked.identify(marked, ["bob", "alice"])] == ["alice"] * 5
    decoded, described = locked.logits(marked)
    assert decoded.shape == (5, 64)
    assert described.shape == (5, 3, 128, 128)
