"""Procedural stand-ins for watermarks: what the preference model learns to see.

Three families of random spectra (Soucek et al. 2025, section 3). Frequencies are in cycles per
pixel, so a mark looks alike at every size; the published ranges are for 512 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from coverlock_bench.preference.visibility import visibility_threshold
from coverlock_sdk.arrays import Images

Plane = npt.NDArray[np.float32]

PUBLISHED_SIDE = 512


def waves(side: int, rng: np.random.Generator) -> Plane:
    """The sum of 2 to 50 sinusoids, low frequencies a little more often than high ones."""
    count = int(rng.integers(2, 51))
    highest = rng.uniform(60, 200) / PUBLISHED_SIDE
    radius = highest * rng.random(count) ** 0.8
    angle, phase = rng.uniform(0, 2 * np.pi, (2, count))
    position = np.arange(side)
    down = np.exp(2j * np.pi * np.outer(position, radius * np.sin(angle)))  # (side, count)
    right = np.exp(2j * np.pi * np.outer(position, radius * np.cos(angle)))
    return _normalised(((down * np.exp(1j * phase)) @ right.T).real)


def gaussian(side: int, rng: np.random.Generator) -> Plane:
    """Noise under a generalised Gaussian envelope, from pointed to flat-topped."""
    power = 4 - 3 * np.sqrt(rng.random())
    width = rng.uniform(20, 50) / PUBLISHED_SIDE
    envelope = np.exp(-((_frequencies(side) / width) ** power))
    return _normalised(np.fft.ifft2(np.fft.fft2(rng.standard_normal((side, side))) * envelope).real)


def lines(side: int, rng: np.random.Generator) -> Plane:
    """Noise in 3 to 10 rows and as many columns of the spectrum: stripes and grids."""
    kept = np.zeros((side, side), dtype=bool)
    kept[rng.integers(0, side, rng.integers(3, 11))] = True
    kept[:, rng.integers(0, side, rng.integers(3, 11))] = True
    return _normalised(np.fft.ifft2(np.fft.fft2(rng.standard_normal((side, side))) * kept).real)


@dataclass(frozen=True)
class Family:
    """One kind of mark, and how strongly it is added: flat, or in units of what is visible."""

    draw: Callable[[int, np.random.Generator], Plane]
    flat: tuple[float, float]
    visible: tuple[float, float]


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "waves": Family(waves, flat=(0.05, 0.05), visible=(0.5, 2)),
        "gaussian": Family(gaussian, flat=(0.05, 0.05), visible=(1, 3)),
        "lines": Family(lines, flat=(0.10, 0.25), visible=(4, 8)),
    }
)


def add_mark(image: Images, family: Family, rng: np.random.Generator) -> Images:
    """``image`` (3, side, side) with a random mark of ``family``, clipped to [0, 1].

    Half of the marks are grey and half differ in each channel; half are attenuated where the
    picture would show them; half are inverted.
    """
    side = image.shape[-1]
    planes = 3 if rng.random() < 0.5 else 1
    mark = np.stack([family.draw(side, rng) for _ in range(planes)])
    if rng.random() < 0.5:
        mark = mark * (rng.uniform(*family.visible) * visibility_threshold(image))
    else:
        mark = mark * rng.uniform(*family.flat)
    sign = 1 if rng.random() < 0.5 else -1
    marked: Images = np.clip(image + sign * mark, 0, 1).astype(np.float32)
    return marked


def _frequencies(side: int) -> npt.NDArray[np.float64]:
    """The distance (side, side) of every coefficient of a spectrum from the constant one."""
    axis = np.fft.fftfreq(side)
    return np.hypot(axis[:, None], axis)


def _normalised(values: npt.NDArray[np.float64]) -> Plane:
    """``values`` scaled so that the largest magnitude is one."""
    plane: Plane = (values / np.abs(values).max()).astype(np.float32)
    return plane
