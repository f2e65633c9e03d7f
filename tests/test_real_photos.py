"""Promises that only real photographs can test; they need the photo collection and some minutes."""

from __future__ import annotations

import warnings

import pytest

from coverlock_sdk import load_watermark, wrap
from coverlock_sdk.errors import MissingModelError, WeakMarkWarning

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@pytest.fixture(scope="module", params=["steganogan", "rivagan"])
def watermark(request):
    try:
        return load_watermark(request.param)
    except MissingModelError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("rule", ["hard", "soft"])
def test_photos_are_accepted_as_saved(watermark, rule, shared_data, tmp_path):
    """RivaGAN misreads a few photos by itself, locked or not; all others must pass."""
    locked = wrap(watermark, rule=rule)
    rejected = []
    for photo in sorted((shared_data / "cc0").glob("*.jpg")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakMarkWarning)
            marked = locked.embed(photo, photo.stem, out=tmp_path / f"{photo.stem}.png")
        if not locked.verify(marked, photo.stem):
            rejected.append(photo.stem)
    allowed = {"04", "09", "11", "16"} if watermark.name == "rivagan" else set()
    assert set(rejected) <= allowed


def test_transplants_between_photos_are_rejected(shared_data):
    import numpy as np
    from PIL import Image

    locked = wrap("steganogan")
    photos = [np.asarray(Image.open(p)) for p in sorted((shared_data / "cc0").glob("*.jpg"))[:12]]
    for index, cover in enumerate(photos):
        residual = locked.embed(cover, "studio").astype(np.int16) - cover
        victim = photos[(index + 1) % len(photos)]
        forged = np.clip(victim + residual, 0, 255).astype(np.uint8)
        assert not locked.verify(forged, "studio")
