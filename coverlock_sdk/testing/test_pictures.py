"""Whether the mark lives through what the SDK does to it: grey pictures, other sizes, a lock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.contract import Watermark
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, NoDefense, wrap
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import working_size
from coverlock_sdk.testing.fixtures import *  # noqa: F403
from coverlock_sdk.testing.fixtures import (
    MIN_ACCURACY,
    MarkedPhotos,
    Photos,
    promise,
    random_payloads,
    share_right,
)

MIN_GREY_ACCURACY = 0.75
"""Mean share of right bits in greyscale pictures, where only the luminance of a mark is left."""


pytestmark = pytest.mark.filterwarnings("ignore::coverlock_sdk.errors.WeakMarkWarning")
"""The kit judges weak marks itself."""


@pytest.fixture(scope="session")
def unlocked(legible: Watermark) -> LockedWatermark:
    """The watermark as callers reach it, without a lock."""
    return NoDefense(fpr=min(_fpr(legible), 0.5)).protect(legible)


@pytest.fixture(scope="session")
def locked(legible: Watermark) -> LockedWatermark:
    """The watermark behind CoverLock, at a false-positive rate its length allows."""
    if _fpr(legible) > 0.01:
        pytest.skip(f"{legible.bits} bits are too few to tell a mark from chance")
    return wrap(legible, fpr=_fpr(legible))


@pytest.fixture
def locked_pictures(locked: LockedWatermark, marked: MarkedPhotos) -> Any:
    """Three pictures that carry a message of all ones under the lock."""
    return locked.embed(list(marked.originals[:3]), np.ones(locked.bits))


def test_greyscale(legible: Watermark, unlocked: LockedWatermark, marked: MarkedPhotos) -> None:
    """A greyscale picture stays one and keeps most of the payload."""
    images = [Image.fromarray(original).convert("L") for original in marked.originals[:4]]
    payloads = random_payloads(legible, len(images))
    returned = [unlocked.mark(*pair).picture for pair in zip(images, payloads, strict=True)]
    accuracy = share_right(unlocked.decode(returned), payloads)
    promise(
        accuracy >= MIN_GREY_ACCURACY,
        f"{accuracy:.1%} of the bits are right in greyscale pictures, but {MIN_GREY_ACCURACY:.0%} "
        "are needed: only the luminance of your residual is added to them, so put "
        "part of the mark into luminance, or tell your users to convert such pictures to RGB",
    )


@pytest.mark.parametrize("stretch", [(1.875, 2.5), (3.5, 1.2)], ids=["landscape", "portrait"])
def test_other_sizes(
    legible: Watermark, unlocked: LockedWatermark, photos: Photos, stretch: tuple[float, float]
) -> None:
    """Larger pictures carry the payload too."""
    height, width = working_size(legible)
    height, width = round(height * stretch[0]), round(width * stretch[1])
    payloads = random_payloads(legible, 2)
    returned = unlocked.embed(photos(2, (height, width)), list(payloads))
    accuracy = share_right(unlocked.decode(returned), payloads)
    promise(
        accuracy >= MIN_ACCURACY,
        f"{accuracy:.1%} of the bits are right in pictures of {width} x {height} pixels, but "
        f"{MIN_ACCURACY:.0%} are needed: unless native_size is None, the SDK adds the residual to "
        "the large picture and rounds it to 8 bits, so it must not hang on single pixels",
    )


def test_lock_accepts(locked: LockedWatermark, locked_pictures: Any) -> None:
    """A locked picture verifies."""
    verdicts = locked.verify(locked_pictures, np.ones(locked.bits))
    rejected = [str(verdict) for verdict in verdicts if not verdict]
    promise(
        not rejected,
        f"{len(rejected)} of {len(verdicts)} locked pictures are not accepted "
        f"({'; '.join(rejected)}): the lock adds the bit errors of the hash to those of the "
        "watermark, so raise its bit accuracy or its number of bits, and fit its calibration",
    )


def test_lock_rejects(locked: LockedWatermark, locked_pictures: Any, marked: MarkedPhotos) -> None:
    """Another message is not accepted, and neither is an unmarked picture."""
    message, other = np.ones(locked.bits), np.arange(locked.bits) % 2
    for claim, verdicts in (
        ("another message", locked.verify(locked_pictures, other)),
        ("an unmarked picture", locked.verify(list(marked.originals[:3]), message)),
    ):
        accepted = [str(verdict) for verdict in verdicts if verdict]
        promise(not accepted, f"{claim} was accepted: {'; '.join(accepted)}")


def _fpr(watermark: Watermark) -> float:
    return max(DEFAULT_FPR, 2.0 ** (4 - watermark.bits))
