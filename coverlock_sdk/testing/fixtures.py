"""What the tests of the kit share: the watermark, pictures, and how a promise is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image, ImageOps

from coverlock_sdk import plugin_calls
from coverlock_sdk.arrays import Bits, Images, Logits, Pixels
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.folders import pictures_in
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing.pictures import natural_pictures
from coverlock_sdk.testing.plugin import IMAGES, WATERMARK

__all__ = ["legible", "loaded", "marked", "photos", "watermark"]

MIN_ACCURACY = 0.95
"""Mean share of right bits in pictures that were saved with 8 bits and otherwise left alone."""
CHANCE = 0.6
"""Share of right bits below which a decoder is no better than guessing."""

Photos = Callable[[int, tuple[int, int]], Pixels]


@dataclass(frozen=True)
class MarkedPhotos:
    """Pictures as they were, as they were saved after marking, and what is read from them."""

    originals: Pixels
    payloads: Bits
    pictures: Pixels
    logits: Logits

    @property
    def accuracy(self) -> float:
        """Mean share of right bits."""
        return share_right(self.logits, self.payloads)


@pytest.fixture(scope="session")
def watermark(request: pytest.FixtureRequest) -> Any:
    """The watermark that is checked: the one that --watermark names."""
    try:
        return plugin_manager().create("watermark", request.config.getoption(WATERMARK), {})
    except CoverLockError as error:
        pytest.exit(str(error), returncode=4)


@pytest.fixture(scope="session")
def photos(request: pytest.FixtureRequest) -> Photos:
    """``photos(count, size)``: from the folder that --images names, or synthetic."""
    folder: Path | None = request.config.getoption(IMAGES, None)
    if folder is None:
        return natural_pictures
    try:
        files = pictures_in(folder)
    except CoverLockError as error:
        pytest.exit(f"--images: {error}", returncode=4)

    def fitted(count: int, size: tuple[int, int]) -> Pixels:
        chosen = [read(files[index % len(files)]).to_bytes() for index in range(count)]
        images = [ImageOps.fit(Image.fromarray(photo), (size[1], size[0])) for photo in chosen]
        return np.stack([np.asarray(image) for image in images])

    return fitted


@pytest.fixture(scope="session")
def loaded(watermark: Any) -> Watermark:
    """The watermark as the SDK loads it; skipped while its members are wrong."""
    try:
        return load_watermark(watermark)
    except CoverLockError:
        pytest.skip("the members must be repaired first: see test_members")


@pytest.fixture(scope="session")
def marked(loaded: Watermark, photos: Photos) -> MarkedPhotos:
    """Eight marked pictures; skipped while what the methods return cannot be used."""
    try:
        return mark(loaded, photos(8, plugin_calls.working_size(loaded)))
    except CoverLockError:
        pytest.skip("what the methods return must be repaired first: see test_answers")


@pytest.fixture(scope="session")
def legible(loaded: Watermark, marked: MarkedPhotos) -> Watermark:
    """The watermark, once its payload can be read with the right sign."""
    if marked.accuracy < CHANCE or not payload_matters(loaded, marked):
        pytest.skip("the payload cannot be read at all: repair that first")
    return loaded


def promise(kept: bool | np.bool_, otherwise: str) -> None:
    """Fail with a sentence for the vendor rather than a traceback into the kit."""
    if not kept:
        pytest.fail(otherwise, pytrace=False)


def mark(watermark: Watermark, originals: Pixels, payloads: Bits | None = None) -> MarkedPhotos:
    """Pictures of the watermark's size marked, rounded to 8 bits and read again."""
    if payloads is None:
        payloads = random_payloads(watermark, len(originals))
    images = plugin_calls.embed(watermark, as_floats(originals), payloads)
    pictures = np.rint(np.clip(np.moveaxis(images, 1, -1), 0, 1) * 255).astype(np.uint8)
    logits = plugin_calls.decode(watermark, as_floats(pictures))
    return MarkedPhotos(originals, payloads, pictures, logits)


def payload_matters(watermark: Watermark, marked: MarkedPhotos) -> bool:
    """Whether the opposite payload gives another picture."""
    inverted = mark(watermark, marked.originals[:1], 1 - marked.payloads[:1])
    return not np.array_equal(inverted.pictures, marked.pictures[:1])


def random_payloads(watermark: Watermark, count: int) -> Bits:
    """So many payloads, the same in every run."""
    return np.random.RandomState(count).randint(0, 2, (count, watermark.bits)).astype(np.uint8)


def as_floats(pictures: Pixels) -> Images:
    """8-bit pictures (N, H, W, 3) as the contract's (N, 3, H, W) in [0, 1]."""
    planes = np.ascontiguousarray(np.moveaxis(pictures, -1, 1))
    return cast("Images", planes.astype(np.float32) / np.float32(255))


def share_right(logits: Logits, payloads: Bits) -> float:
    """Mean share of right bits."""
    return float(((logits > 0) == (payloads > 0)).mean())
