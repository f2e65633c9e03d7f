"""What this package promises beyond the contract: its options, its robustness, its visibility."""

import numpy as np
import pytest
from spreadmark import Spreadmark

from coverlock_sdk import NoDefense
from coverlock_sdk.images.distortions import Brightness, Contrast, GaussianNoise, Jpeg
from coverlock_sdk.testing import natural_pictures


@pytest.fixture(scope="module")
def pictures():
    return natural_pictures(8)


@pytest.fixture(scope="module")
def payloads():
    return np.random.RandomState(0).randint(0, 2, (8, Spreadmark.bits))


def protected(**options):
    """Spreadmark for pictures of any kind, and without a lock."""
    return NoDefense().protect(Spreadmark(**options))


def accuracy(logits, payloads):
    return ((logits > 0) == (payloads > 0)).mean()


@pytest.mark.parametrize(
    "distortion",
    [Jpeg(70), GaussianNoise(0.02), Brightness(1.2), Contrast(1.2)],
    ids=lambda distortion: type(distortion).__name__,
)
def test_survives_everyday_distortions(pictures, payloads, distortion):
    marked = protected().embed(pictures, payloads)
    rng = np.random.default_rng(0)
    distorted = np.stack([distortion(picture, rng) for picture in marked])
    assert accuracy(protected().decode(distorted), payloads) > 0.98


def test_another_key_reads_noise(pictures, payloads):
    mine, yours = protected(key="mine"), protected(key="yours")
    marked = mine.embed(pictures, payloads)
    assert accuracy(mine.decode(marked), payloads) == 1
    assert abs(accuracy(yours.decode(marked), payloads) - 0.5) < 0.1


def test_cannot_be_seen(pictures, payloads):
    error = protected().embed(pictures, payloads).astype(float) - pictures
    psnr = 10 * np.log10(255**2 / np.square(error).mean(axis=(1, 2, 3)))
    assert psnr.min() >= 38


def test_texture_hides_more_than_sky():
    texture = np.random.RandomState(0).uniform(0.2, 0.8, (1, 3, 256, 256)).astype(np.float32)
    sky = np.full_like(texture, 0.6)
    payload = np.zeros((1, Spreadmark.bits), dtype=np.uint8)
    change = [np.abs(Spreadmark().embed(image, payload) - image).mean() for image in (texture, sky)]
    assert change[0] > 2 * change[1]
