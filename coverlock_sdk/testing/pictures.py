"""Pictures for tests that need no photos: dead leaves, with the texture and light of nature."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
Plane = npt.NDArray[np.float64]

_LEAVES = 120
_CONTRAST = 0.16
_RGB_OF_OPPONENTS = np.array([[1.0, 0.45, 0.25], [1.0, -0.15, 0.1], [1.0, -0.35, -0.6]])
"""Photos vary most in lightness, less between warm and cold, and least between green and pink."""


def natural_pictures(
    count: int, size: tuple[int, int] = (256, 256), seed: int = 0
) -> npt.NDArray[np.uint8]:
    """``count`` pictures (N, H, W, 3) of ``size`` (height, width), the same for the same seed.

    Discs of all scales hide one another as objects do (the dead-leaves model), each with a colour
    and a roughness of its own, under uneven light.
    """
    pictures = [_natural_picture(size, np.random.RandomState([seed, i])) for i in range(count)]
    return np.stack(pictures) if pictures else np.empty((0, *size, 3), dtype=np.uint8)


def _natural_picture(size: tuple[int, int], rng: np.random.RandomState) -> Picture:
    scene = np.tile(rng.normal(0, 1, 3), (*size, 1))
    roughness = np.zeros(size)
    rows, columns = np.arange(size[0]), np.arange(size[1])
    for radius in _radii(rng, max(size)):
        row, column = rng.uniform(-0.1, 1.1, 2) * size
        near_rows = slice(*np.searchsorted(rows, (row - radius, row + radius)))
        near_columns = slice(*np.searchsorted(columns, (column - radius, column + radius)))
        across, down = columns[near_columns] - column, rows[near_rows, None] - row
        leaf = across**2 + down**2 < radius**2
        scene[near_rows, near_columns][leaf] = rng.normal(0, 1, 3)
        roughness[near_rows, near_columns][leaf] = rng.choice([0.03, 0.2, 0.6])
    scene += (roughness * _falling_noise(size, 0.8, rng))[..., None] * (1.0, 0.2, 0.2)
    scene[..., 0] += 0.7 * _falling_noise(size, 2.0, rng)
    colour = rng.uniform(0.4, 0.55) + _CONTRAST * scene @ _RGB_OF_OPPONENTS.T
    colour += rng.normal(0, 0.004, colour.shape)  # what a sensor adds
    picture: Picture = np.rint(np.clip(colour, 0, 1) * 255).astype(np.uint8)
    return picture


def _radii(rng: np.random.RandomState, side: int) -> Plane:
    """Radii with density r^-3, under which a scene looks alike at every scale; largest first."""
    smallest, largest = 0.02, 0.5
    chance = rng.uniform(0, 1, _LEAVES)
    radii = (largest**-2 + chance * (smallest**-2 - largest**-2)) ** -0.5
    return np.sort(radii * side)[::-1]


def _falling_noise(size: tuple[int, int], exponent: float, rng: np.random.RandomState) -> Plane:
    """Noise of unit variance whose amplitude falls as frequency^-exponent."""
    spectrum = np.fft.rfft2(rng.normal(size=size))
    frequency = np.hypot(np.fft.fftfreq(size[0])[:, None], np.fft.rfftfreq(size[1]))
    frequency[0, 0] = np.inf
    noise = np.fft.irfft2(spectrum * frequency**-exponent, s=size)
    scaled: Plane = noise / noise.std()
    return scaled
