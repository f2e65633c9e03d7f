"""What callers may give to a watermark: pictures of every kind and size, and messages under a lock.

Callers never reach a plugin directly: the SDK reads what they have and gives it back as it came.
These tests show whether the mark lives through that.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.arrays import Pixels
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, NoDefense, wrap
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import working_size
from coverlock_sdk.testing.fixtures import *  # noqa: F403
from coverlock_sdk.testing.fixtures import (
    MIN_ACCURACY,
    Marked,
    Photos,
    Record,
    as_floats,
    promise,
    random_payloads,
    share_right,
)
from coverlock_sdk.testing.plugin import FIGURE

MIN_GREY_ACCURACY = 0.75
"""Mean share of right bits in greyscale pictures, where only the luminance of a mark is left."""

KINDS = ("PIL image", "PIL image with alpha", "8-bit array", "float array", "file", "bytes")


@pytest.fixture(autouse=True)
def no_warnings_of_weak_marks() -> Iterator[None]:
    """The kit judges weak marks itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)
        yield


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
def locked_pictures(locked: LockedWatermark, marked: Marked) -> list[Pixels]:
    """Three pictures that carry a message of all ones under the lock."""
    pictures: list[Pixels] = locked.embed(list(marked.originals[:3]), np.ones(locked.bits))
    return pictures


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(unlocked: LockedWatermark, marked: Marked, tmp_path: Path, kind: str) -> None:
    """Every kind of picture carries the payload and comes back as the kind that it was."""
    payload = marked.payloads[:1]
    given = _as_kind(kind, marked.originals[0], tmp_path)
    returned = unlocked.embed(given, payload[0])
    if kind != "bytes":  # they come back as an image
        promise(_form(returned) == _form(given), f"a {kind} came back as {_form(returned)}")
    found, expected = (
        share_right(logits, payload) for logits in (unlocked.decode(returned), marked.logits[:1])
    )
    promise(
        found >= expected - 0.1,
        f"{found:.1%} of the bits are right in a {kind}, {expected:.1%} in others",
    )


def test_greyscale(
    legible: Watermark, unlocked: LockedWatermark, marked: Marked, record_property: Record
) -> None:
    """A greyscale picture stays one and keeps most of the payload."""
    images = [Image.fromarray(original).convert("L") for original in marked.originals[:4]]
    payloads = random_payloads(legible, len(images))
    returned = [
        unlocked.mark(image, payload).picture
        for image, payload in zip(images, payloads, strict=True)
    ]
    promise({image.mode for image in returned} == {"L"}, "a greyscale image came back in colour")
    accuracy = share_right(unlocked.decode(returned), payloads)
    record_property(f"{FIGURE}bit accuracy, greyscale", f"{accuracy:.4f}")
    promise(
        accuracy >= MIN_GREY_ACCURACY,
        f"{accuracy:.1%} of the bits are right in greyscale pictures, but {MIN_GREY_ACCURACY:.0%} "
        "are needed: only the luminance of your residual is added to them, so put "
        "part of the mark into luminance, or tell your users to convert such pictures to RGB",
    )


@pytest.mark.parametrize(
    ("taller", "wider"), [(1.875, 2.5), (3.5, 1.2)], ids=["landscape", "portrait"]
)
def test_other_sizes(
    legible: Watermark,
    unlocked: LockedWatermark,
    photos: Photos,
    record_property: Record,
    taller: float,
    wider: float,
) -> None:
    """Larger pictures carry the payload too."""
    height, width = working_size(legible)
    size = round(height * taller), round(width * wider)
    payloads = random_payloads(legible, 2)
    returned = unlocked.embed(photos(2, size), list(payloads))
    accuracy = share_right(unlocked.decode(returned), payloads)
    dimensions = f"{size[1]} x {size[0]}"
    record_property(f"{FIGURE}bit accuracy, {dimensions} pixels", f"{accuracy:.4f}")
    remedy = (
        "your methods get such pictures as they are, because native_size is None"
        if legible.native_size is None
        else "the SDK adds the residual to the large picture and rounds it to 8 bits, so the "
        "residual must not hang on single pixels or exact values"
    )
    promise(
        accuracy >= MIN_ACCURACY,
        f"{accuracy:.1%} of the bits are right in pictures of {dimensions} pixels, but "
        f"{MIN_ACCURACY:.0%} are needed: {remedy}",
    )


def test_lock_accepts(locked: LockedWatermark, locked_pictures: list[Pixels]) -> None:
    """A locked picture verifies."""
    verdicts = locked.verify(locked_pictures, np.ones(locked.bits))
    rejected = [str(verdict) for verdict in verdicts if not verdict]
    promise(
        not rejected,
        f"{len(rejected)} of {len(verdicts)} locked pictures are not accepted "
        f"({'; '.join(rejected)}): the lock adds the bit errors of the hash to those of the "
        "watermark, so raise its bit accuracy or its number of bits, and fit its calibration",
    )


def test_lock_rejects(
    locked: LockedWatermark, locked_pictures: list[Pixels], marked: Marked
) -> None:
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


def _as_kind(kind: str, picture: Pixels, folder: Path) -> Any:
    image = Image.fromarray(picture)
    if kind == "PIL image with alpha":
        image.putalpha(255)
    if kind.startswith("PIL"):
        return image
    if kind == "8-bit array":
        return picture
    if kind == "float array":
        return as_floats(picture[None])[0]
    file = folder / "photo.png"
    image.save(file)
    return file if kind == "file" else file.read_bytes()


def _form(picture: Any) -> str:
    """What a caller sees of a picture without looking at its values."""
    if isinstance(picture, Image.Image):
        return f"PIL image, mode {picture.mode}, {picture.size}"
    if isinstance(picture, np.ndarray):
        return f"array of {picture.dtype}, {picture.shape}"
    return f"a {type(picture).__name__} of {Path(picture).suffix}"
