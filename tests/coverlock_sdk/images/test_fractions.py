"""Large JPEG files are decoded at a fraction of their size where no more is seen of them."""

import io

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import Verdict
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import Given, read
from coverlock_sdk.testing import natural_pictures
from tests.toy_bundle import toy_lock

SEEN = (128, 128)


@pytest.fixture(scope="module")
def large():
    """A marked picture of 1.9 megapixels with the noise of a camera."""
    smooth = Image.fromarray(natural_pictures(1, (200, 266), seed=3)[0])
    photo = np.asarray(smooth.resize((1600, 1200), Image.Resampling.BICUBIC)).astype(float)
    noisy = photo + np.random.default_rng(0).normal(0, 4, photo.shape)
    return toy_lock().embed(np.clip(noisy, 0, 255).astype(np.uint8), "alice")


def jpeg(pixels: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=92, **options)
    return file.getvalue()


def test_what_networks_see_stays_the_same(large):
    content = jpeg(large)
    part, whole = read(content, seen_at=SEEN), read(content)
    assert (part.size, whole.size) == ((600, 800), (1200, 1600))  # a quarter would be 300 x 400
    apart = part.view(SEEN) - whole.view(SEEN)
    assert np.sqrt(np.square(apart).mean()) < 0.5 / 255


def test_a_picture_on_its_side_stands_upright(large):
    exif = Image.Exif()
    exif[0x0112] = 6
    part = read(jpeg(large, exif=exif), seen_at=SEEN)
    assert part.size == (800, 600)


def test_the_limit_is_on_the_whole_picture(large):
    with pytest.raises(PictureError, match="too large"):
        read(jpeg(large), max_pixels=1_000_000, seen_at=SEEN)


@pytest.mark.parametrize("message", ["alice", "bob"])
def test_verdicts_are_those_of_the_whole_picture(large, message, tmp_path):
    lock, content = toy_lock(), jpeg(large)
    (tmp_path / "large.jpg").write_bytes(content)
    expected = lock.verify(read(content).pixels, message)
    for given in (content, tmp_path / "large.jpg"):
        assert lock.verify(given, message).accepted == expected.accepted == (message == "alice")


def test_a_close_verdict_is_decided_on_the_whole_picture(large, monkeypatch):
    lock, content = toy_lock(), jpeg(large)
    at_a_fraction = lock.verify(content, "bob")
    monkeypatch.setattr(Verdict, "is_close", property(lambda verdict: True))
    whole = lock.verify(read(content).pixels, "bob")
    assert lock.verify(content, "bob") == whole != at_a_fraction
    assert lock.verify([content, large], "bob")[0] == whole


def test_whoever_decodes_at_a_fraction_gives_the_whole(large, monkeypatch):
    lock, content = toy_lock(), jpeg(large)
    part, whole = read(content, seen_at=SEEN).pixels, read(content).pixels
    asked: list[int] = []

    def give(row: int) -> np.ndarray:
        asked.append(row)
        return whole

    assert lock.verify(Given([part], whole=give), "alice")[0].accepted
    assert asked == []  # it was not close
    monkeypatch.setattr(Verdict, "is_close", property(lambda verdict: True))
    assert lock.verify(Given([part], whole=give), "alice") == [lock.verify(whole, "alice")]
    assert asked == [0]


@pytest.mark.parametrize(
    ("accepted", "p_value", "agreement", "close"),
    [
        (True, 1e-12, 0.99, False),
        (True, 1e-8, 0.99, True),
        (True, 1e-12, 0.85, True),
        (False, 0.3, 0.5, False),
        (False, 2e-6, 0.9, True),
        (False, 1e-12, 0.82, True),
        (False, 1e-12, 0.6, False),
    ],
)
def test_what_is_close(accepted, p_value, agreement, close):
    verdict = Verdict(accepted, p_value, 60, 64, 1e-6, "soft", agreement=agreement, floor=0.83)
    assert verdict.is_close == close
