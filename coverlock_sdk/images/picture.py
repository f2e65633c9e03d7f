"""One picture in memory, what a network sees of it, and how to add a residual.

A picture keeps its size, bit depth and transparency. Networks see it as RGB in [0, 1], with
transparency over white, canonically resampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coverlock_sdk.arrays import AnyArray, Images, Pixels
from coverlock_sdk.errors import PictureError
from coverlock_sdk.frames import Frame
from coverlock_sdk.images.resampling import lift_gram, lift_of, round_trip, weights_of
from coverlock_sdk.threads import one_thread

MIN_SIDE = 32
"""Smaller sides cannot carry a watermark; such pictures are refused."""

MAX_SIDE = 32_768
MAX_PIXELS = 64_000_000
"""Files with more pixels are refused, unless the caller raises the limit."""
MOST_PIXELS = 178_956_970
"""The highest limit allowed; Pillow treats larger files as decompression bombs."""

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""How much red, green and blue contribute to grey: ITU-R BT.601, as in JPEG and Pillow."""

ROUND_UP_FROM = 0.5 - 2**-10
"""Resampled values are rounded up from this fraction on. Half-way values are common, and a margin
wider than summation errors makes all machines agree on them."""

_STRIP_ROWS = 64  # pictures are processed in strips, so that memory stays near the file's own


def levels(view: Images) -> Pixels:
    """Values in [0, 1] as 8-bit levels."""
    return np.floor(np.clip(view, 0, 1) * 255 + (1 - ROUND_UP_FROM)).astype(np.uint8)


@dataclass(frozen=True)
class Picture:
    """One picture, of any original kind."""

    pixels: AnyArray
    """(H, W, 1 or 3); uint8, uint16, or float32 in [0, 1]."""
    alpha: AnyArray | None = None
    """(H, W, 1) of the same type, or None if the picture is opaque."""
    original_aspect: float | None = None
    """Width over height of the picture that this one was resampled from, if it was."""

    def __post_init__(self) -> None:
        """Refuse unusable sizes."""
        require_size(*self.size)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def aspect(self) -> float:
        """Width over height, before any resampling."""
        height, width = self.size
        return self.original_aspect or width / height

    def resampled(self, size: tuple[int, int] | None) -> Picture:
        """The visible picture as 8-bit RGB at ``size``, or at its own."""
        return Picture(self.to_bytes(size), original_aspect=self.aspect)

    @one_thread
    def view(self, size: tuple[int, int]) -> Images:
        """What a network of input ``size`` sees of this picture: (3, *size) in [0, 1]."""
        (height, width), channels = self.size, self.pixels.shape[2]
        seen = np.zeros((size[0], width * channels), dtype=np.float32)
        for strip in _strips(height):
            row = self._opaque(strip).reshape(-1, width * channels)
            if height == size[0]:
                seen[strip] = row
            else:
                band, weights = weights_of(height, size[0], strip.start, strip.stop)
                seen[band] += weights @ row
        seen /= self._peak
        # Contiguous planes: NumPy multiplies strided ones without BLAS, twenty times slower.
        planes = np.ascontiguousarray(np.moveaxis(seen.reshape(size[0], width, channels), -1, 0))
        narrow = planes if width == size[1] else _narrowed(planes, size[1])
        return narrow if channels == 3 else np.repeat(narrow, 3, axis=0)

    def seen_at(self, size: tuple[int, int] | None) -> Images:
        """The same in 8 bits, as an exported graph sees it; by default at its own size."""
        seen = np.moveaxis(self.to_bytes(size), -1, 0)
        return np.ascontiguousarray(seen, dtype=np.float32) / np.float32(255)

    @one_thread
    def with_residual(self, residual: Images) -> Picture:
        """This picture plus ``residual`` (3, h, w), resampled to its size, rounded to its depth."""
        height, width = self.size
        across = np.moveaxis(_widened(self._shown(residual) * self._peak, width), 0, -1)
        flat = np.ascontiguousarray(across).reshape(residual.shape[1], -1)
        marked = np.empty_like(self.pixels)
        for strip in _strips(height):
            if residual.shape[1] == height:
                part = flat[strip].copy()
            else:
                band, weights = lift_of(residual.shape[1], height, strip.start, strip.stop)
                part = weights @ flat[band]
            original = self.pixels[strip]
            part += original.reshape(len(part), -1)
            if self._peak > 1:
                np.rint(part, out=part)
            np.clip(part, 0, self._peak, out=part)
            marked[strip] = part.reshape(original.shape)
        return replace(self, pixels=marked)

    def seen_of(self, residual: Images) -> Images:
        """What is seen of ``residual`` (3, h, w) after resampling it to this size and back."""
        (height, width), (small, narrow) = self.size, residual.shape[1:]
        shown = self._shown(residual)
        if (small, narrow) == self.size:
            return shown
        seen = round_trip(small, height) @ shown @ round_trip(narrow, width).T
        return seen.astype(np.float32, copy=False)

    @property
    def rounding(self) -> float:
        """The mean square of the error from rounding to the picture's depth."""
        return 0.0 if self._peak == 1 else 1 / 12 / float(self._peak) ** 2

    def energy_of(self, residual: Images) -> float:
        """The mean square of ``residual`` (3, h, w) resampled to this size."""
        (height, width), (small, narrow) = self.size, residual.shape[1:]
        shown = self._shown(residual)
        if (small, narrow) == self.size:
            return float(np.vdot(shown, shown)) / self.pixels.size
        spread = lift_gram(small, height) @ shown @ lift_gram(narrow, width)
        return float(np.vdot(spread, shown)) / self.pixels.size

    def to_bytes(self, size: tuple[int, int] | None = None) -> Pixels:
        """The visible picture as 8-bit RGB (H, W, 3), at its own size or at ``size``."""
        size = size or self.size
        plain = self.pixels.dtype == np.uint8 and self.pixels.shape[2] == 3 and self.alpha is None
        if plain and size == self.size:
            return self.pixels.copy()
        return levels(np.moveaxis(self.view(size), 0, -1))

    @property
    def is_grey(self) -> bool:
        """Whether the picture has one channel, and so no colour to hide a mark in."""
        return self.pixels.shape[2] == 1

    def layers(self) -> AnyArray:
        """Colour, and transparency if there is any, as one array (H, W, channels)."""
        if self.alpha is None:
            return self.pixels
        return np.concatenate([self.pixels, self.alpha], axis=-1)

    @one_thread
    def psnr(self, other: Picture) -> float:
        """Peak signal-to-noise ratio in decibels between this picture and ``other``."""
        total = 0.0
        for strip in _strips(self.size[0]):
            apart = np.subtract(self.pixels[strip], other.pixels[strip], dtype=np.float32)
            total += float(np.vdot(apart, apart))
        mean_square = total / self.pixels.size / float(self._peak) ** 2
        return float("inf") if total == 0 else -10 * float(np.log10(mean_square))

    def _shown(self, residual: Images) -> Images:
        """What this picture can show of ``residual`` (3, h, w): all of it, or its grey."""
        if not self.is_grey:
            return residual
        grey: Images = np.tensordot(LUMA, residual, axes=1)[None]
        return grey

    @property
    def _peak(self) -> np.float32:
        """The value of white."""
        kind = self.pixels.dtype
        return np.float32(1 if kind == np.float32 else np.iinfo(kind).max)

    def _opaque(self, strip: slice) -> Images:
        """Rows of the picture over white, up to the peak."""
        colour = self.pixels[strip].astype(np.float32)
        if self.alpha is not None:
            opacity = self.alpha[strip].astype(np.float32) / self._peak
            colour = colour * opacity + (1 - opacity) * self._peak
        return colour


def _narrowed(planes: Images, width: int) -> Images:
    """The last axis of ``planes`` resampled to ``width``."""
    flat = planes.reshape(-1, planes.shape[-1])
    narrow = np.zeros((len(flat), width), dtype=np.float32)
    for strip in _strips(flat.shape[1]):
        band, weights = weights_of(flat.shape[1], width, strip.start, strip.stop)
        narrow[:, band] += flat[:, strip] @ weights.T
    return narrow.reshape(*planes.shape[:-1], width)


def _widened(residual: Images, width: int) -> Images:
    """The last axis of ``residual`` lifted to ``width``."""
    if residual.shape[-1] == width:
        return residual
    flat = residual.reshape(-1, residual.shape[-1])
    wide = np.empty((len(flat), width), dtype=np.float32)
    for strip in _strips(width):
        band, weights = lift_of(flat.shape[1], width, strip.start, strip.stop)
        wide[:, strip] = flat[:, band] @ weights.T
    return wide.reshape(*residual.shape[:-1], width)


def stacked_views(pictures: Sequence[Picture], size: tuple[int, int]) -> Images:
    """What a network of input ``size`` sees of ``pictures``: (N, 3, *size) in [0, 1]."""
    views = [picture.view(size) for picture in pictures]
    return np.array(views, dtype=np.float32).reshape(len(views), 3, *size)


def require_size(height: int, width: int, max_pixels: int = MOST_PIXELS) -> None:
    """Refuse a picture that is too small to carry a mark, or too large to handle."""
    if min(height, width) < MIN_SIDE:
        raise PictureError(
            f"a picture of {width} x {height} pixels is too small to carry a mark: "
            f"both sides must have at least {MIN_SIDE}"
        )
    if max(height, width) > MAX_SIDE or height * width > max_pixels:
        raise PictureError(
            f"a picture of {width} x {height} pixels is too large: at most {MAX_SIDE:,} per side "
            f"and {max_pixels:,} in total are allowed"
        )


def _strips(height: int) -> Iterator[slice]:
    for top in range(0, height, _STRIP_ROWS):
        yield slice(top, min(top + _STRIP_ROWS, height))


def put_back(picture: Picture, size: tuple[int, int] | None, frame: Frame) -> Picture:
    """A picture at ``size``, in 8 bits, put back in its place in a frame."""
    pixels = np.moveaxis(placed(picture.seen_at(size), frame), 0, -1)
    return Picture(np.rint(pixels * np.float32(255)).astype(np.uint8))


def placed(view: Images, frame: Frame) -> Images:
    """The part of the original frame (3, H, W) that ``view`` (3, H, W) shows, in its place, so that
    bits are in theirs; the outermost pixels are repeated around it.
    """
    if frame.turn:
        return _turned(view, frame)
    down = _along(view, frame.side, frame.y)
    return _along(down.transpose(0, 2, 1), frame.side, frame.x).transpose(0, 2, 1)


def _along(values: Images, side: float, centre: float) -> Images:
    """Put the middle axis of ``values`` (3, N, M) in its place by linear interpolation."""
    samples = values.shape[1]
    places = ((np.arange(samples) + 0.5) / samples - centre) / side + 0.5
    positions = np.clip(places * samples - 0.5, 0, samples - 1)
    before = np.minimum(positions.astype(np.int64), samples - 2)
    share = (positions - before).astype(np.float32)[:, None]
    return values[:, before] * (1 - share) + values[:, before + 1] * share


def _turned(view: Images, frame: Frame) -> Images:
    from PIL import Image

    height, width = view.shape[1:]
    angle = math.radians(frame.turn)
    cos, sin = math.cos(angle) / frame.side, math.sin(angle) / frame.side
    x, y = frame.x * width, frame.y * height
    # A view may have been squeezed, so its proportions can differ from the picture's.
    squeezed = frame.aspect * height / width
    across, down = sin / squeezed, sin * squeezed
    matrix = (
        *(cos, across, width / 2 - cos * x - across * y),
        *(-down, cos, height / 2 + down * x - cos * y),
    )

    def transformed(values: Images) -> Images:
        image = Image.fromarray(np.ascontiguousarray(values))
        bilinear = Image.Resampling.BILINEAR
        return np.asarray(
            image.transform((width, height), Image.Transform.AFFINE, matrix, bilinear)
        )

    seen = transformed(np.ones((height, width), dtype=np.float32))
    mean = view.mean(axis=(1, 2), dtype=np.float32)
    return np.stack([transformed(v - m) * (seen > 0) + m for v, m in zip(view, mean, strict=True)])
