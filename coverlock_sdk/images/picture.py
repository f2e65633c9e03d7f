"""One picture in memory: what a network sees of it, and how it carries a residual.

A picture keeps its size, bit depth and transparency. Networks see ``view(size)``: RGB in [0, 1],
transparency over white, canonically resampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coverlock_sdk.arrays import AnyArray, Images, Pixels
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.resampling import lift_matrix, resample_matrix
from coverlock_sdk.threads import one_thread

MIN_SIDE = 32
"""Smaller sides cannot carry a watermark; such pictures are refused."""

MAX_SIDE = 32_768
MAX_PIXELS = 64_000_000
"""Pixels above which a file is refused, unless the caller asks for more."""
MOST_PIXELS = 178_956_970
"""What a caller can ask for; Pillow takes a file of more pixels for a decompression bomb."""

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""How much red, green and blue contribute to grey: ITU-R BT.601, as in JPEG and Pillow."""

ROUND_UP_FROM = 0.5 - 2**-10
"""Fractions from which on a resampled value is rounded up.

Values half-way between two levels are common where a size is halved, and the order in which a
machine sums would decide them. A margin wider than such errors makes all machines agree.
"""

_STRIP_ROWS = 256  # pictures are processed in strips, so that memory stays near the file's own


@dataclass(frozen=True)
class Picture:
    """One picture, whatever kind it came as."""

    pixels: AnyArray
    """(H, W, 1 or 3); uint8, uint16, or float32 in [0, 1]."""
    alpha: AnyArray | None = None
    """(H, W, 1) of the same type, or None where the picture is opaque."""

    def __post_init__(self) -> None:
        """Refuse sizes that nothing can be done with."""
        require_size(*self.size)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @one_thread
    def view(self, size: tuple[int, int]) -> Images:
        """What a network of input ``size`` sees of this picture: (3, *size) in [0, 1]."""
        height, width = self.size
        if height == size[0]:
            seen = np.concatenate([self._opaque(strip) for strip in _strips(height)], axis=1)
        else:
            seen = np.zeros((3, size[0], width), dtype=np.float32)
            rows = resample_matrix(height, size[0])
            for strip in _strips(height):
                touched = np.flatnonzero(rows[:, strip].any(axis=1))
                seen[:, touched] += rows[touched, strip] @ self._opaque(strip)
        return seen if width == size[1] else seen @ resample_matrix(width, size[1]).T

    @one_thread
    def with_residual(self, residual: Images) -> Picture:
        """This picture plus ``residual`` (3, h, w), carried to its size, rounded to its depth."""
        (height, width), (small, narrow) = self.size, residual.shape[1:]
        across = residual if narrow == width else residual @ lift_matrix(narrow, width).T
        rows = None if small == height else lift_matrix(small, height)
        marked = np.empty_like(self.pixels)
        for strip in _strips(height):
            part = np.moveaxis(across[:, strip] if rows is None else rows[strip] @ across, 0, -1)
            if self.pixels.shape[2] == 1:
                part = (part @ LUMA)[..., None]
            marked[strip] = self._quantise(np.add(self._unit(self.pixels[strip]), part))
        return replace(self, pixels=marked)

    def to_bytes(self, size: tuple[int, int] | None = None) -> Pixels:
        """The visible picture as 8-bit RGB (H, W, 3), at its own size or at ``size``."""
        size = size or self.size
        plain = self.pixels.dtype == np.uint8 and self.pixels.shape[2] == 3 and self.alpha is None
        if plain and size == self.size:
            return self.pixels.copy()
        seen = np.moveaxis(self.view(size), 0, -1)
        return np.floor(np.clip(seen, 0, 1) * 255 + (1 - ROUND_UP_FROM)).astype(np.uint8)

    def layers(self) -> AnyArray:
        """Colour, and transparency where there is any, as one array (H, W, channels)."""
        if self.alpha is None:
            return self.pixels
        return np.concatenate([self.pixels, self.alpha], axis=-1)

    def psnr(self, other: Picture) -> float:
        """Peak signal-to-noise ratio in decibels between this picture and ``other``."""
        total = 0.0
        for strip in _strips(self.size[0]):
            difference = self._unit(self.pixels[strip]) - self._unit(other.pixels[strip])
            total += float(np.square(difference, dtype=np.float64).sum())
        return float("inf") if total == 0 else -10 * float(np.log10(total / self.pixels.size))

    def _unit(self, values: AnyArray) -> Images:
        if values.dtype == np.float32:
            return values
        unit: Images = np.divide(values, np.float32(np.iinfo(values.dtype).max), dtype=np.float32)
        return unit

    def _quantise(self, values: Images) -> AnyArray:
        values = np.clip(values, 0.0, 1.0)
        if self.pixels.dtype == np.float32:
            return values
        return np.rint(values * np.iinfo(self.pixels.dtype).max).astype(self.pixels.dtype)

    def _opaque(self, strip: slice) -> Images:
        colour = self._unit(self.pixels[strip])
        if self.alpha is not None:
            opacity = self._unit(self.alpha[strip])
            colour = colour * opacity + (1.0 - opacity)
        # Contiguous planes: NumPy multiplies strided ones without BLAS, twenty times slower.
        planes = np.ascontiguousarray(np.moveaxis(colour, -1, 0))
        return np.broadcast_to(planes, (3, *planes.shape[1:]))


def stacked_views(pictures: Sequence[Picture], size: tuple[int, int]) -> Images:
    """What a network of input ``size`` sees of ``pictures``: (N, 3, *size) in [0, 1]."""
    views = np.empty((len(pictures), 3, *size), dtype=np.float32)
    for row, picture in enumerate(pictures):
        views[row] = picture.view(size)
    return views


def require_size(height: int, width: int, max_pixels: int = MOST_PIXELS) -> None:
    """Refuse a picture that is too small to carry a mark, or too large to be handled."""
    if min(height, width) < MIN_SIDE:
        raise PictureError(
            f"a picture of {width} x {height} pixels is too small to carry a mark: "
            f"both sides must have at least {MIN_SIDE}"
        )
    if max(height, width) > MAX_SIDE or height * width > max_pixels:
        raise PictureError(
            f"a picture of {width} x {height} pixels is too large: at most {MAX_SIDE:,} a side "
            f"and {max_pixels:,} in all"
        )


def _strips(height: int) -> Iterator[slice]:
    for top in range(0, height, _STRIP_ROWS):
        yield slice(top, min(top + _STRIP_ROWS, height))
