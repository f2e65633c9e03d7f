"""The features of the ``dct`` hash: low frequencies of luminance and chrominance, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images

SIDE = 64
"""Pictures are reduced to this many pixels a side: what survives there survives distortion."""

LUMA_BAND = 16
CHROMA_BAND = 11
"""Frequencies below these, diagonally (u + v), are kept of luminance and of each chrominance."""

LEAST_CONTRAST = 1.0
LEAST_COLOUR = 2.0
"""Lengths below which luminance and chrominance are not scaled up to one.

They keep a flat or grey picture near zero. Otherwise its noise, and the colour that a mark adds,
would decide its bits. (The median photo has lengths of 12 and 3.)
"""

# ITU-R BT.601 luminance and the two colour differences, as in JPEG.
RGB_TO_YCC = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]],
    dtype=np.float32,
)


Features = npt.NDArray[np.float32]


def dct_features(images: Images) -> Features:
    """Low-frequency DCT coefficients (N, D), indifferent to brightness, contrast and saturation.

    The constant terms are dropped and luminance and chrominance each brought to unit length.
    """
    luma, chroma = _low_coefficients(images)
    return np.concatenate(
        [_normalised(luma, LEAST_CONTRAST), _normalised(chroma, LEAST_COLOUR)], axis=1
    )


def features_and_gradient(images: Images) -> tuple[Features, Callable[[Features], Images]]:
    """``dct_features``, and what carries gradients of them back to the pictures."""
    luma, chroma = _low_coefficients(images)

    def pull(g: Features) -> Images:
        of_luma, of_chroma = np.split(g, [luma.shape[1]], axis=1)
        of_luma = _normalised_gradient(of_luma, luma, LEAST_CONTRAST)
        of_chroma = _normalised_gradient(of_chroma, chroma, LEAST_COLOUR)
        spectrum = np.zeros((len(g), 3, SIDE, SIDE), dtype=np.float32)
        low = low_frequencies(CHROMA_BAND)
        spectrum[:, 0, low_frequencies(LUMA_BAND)] = of_luma
        spectrum[:, 1, low], spectrum[:, 2, low] = np.split(of_chroma, 2, axis=1)
        basis = dct_basis(SIDE)
        return np.einsum("cd,nchw->ndhw", RGB_TO_YCC, basis.T @ spectrum @ basis)

    return dct_features(images), pull


def _low_coefficients(images: Images) -> tuple[Features, Features]:
    """Luminance and chrominance at low frequencies, as they are."""
    channels = np.einsum("cd,ndhw->nchw", RGB_TO_YCC, images)
    basis = dct_basis(SIDE)
    spectrum = basis @ channels @ basis.T
    luma = spectrum[:, 0][:, low_frequencies(LUMA_BAND)]
    low = low_frequencies(CHROMA_BAND)
    chroma = np.concatenate([spectrum[:, 1][:, low], spectrum[:, 2][:, low]], axis=1)
    return luma, chroma


def _normalised(values: Features, least: float) -> Features:
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.maximum(length, np.float32(least))


def _normalised_gradient(g: Features, values: Features, least: float) -> Features:
    length = np.linalg.norm(values, axis=1, keepdims=True)
    unit = values / np.maximum(length, np.float32(least))
    along = unit * (g * unit).sum(axis=1, keepdims=True) * (length > least)
    return (g - along) / np.maximum(length, np.float32(least))


@lru_cache(maxsize=2)
def dct_basis(size: int) -> npt.NDArray[np.float32]:
    """The orthonormal DCT-II matrix (frequencies, positions)."""
    frequency, position = np.arange(size)[:, None], np.arange(size) + 0.5
    basis = np.cos(np.pi * frequency * position / size) * np.sqrt(2 / size)
    basis[0] /= np.sqrt(2)
    return basis.astype(np.float32)


@lru_cache(maxsize=2)
def low_frequencies(band: int) -> npt.NDArray[np.bool_]:
    """Which of (SIDE, SIDE) frequencies lie below ``band``, the constant one excluded."""
    u, v = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    return (u + v < band) & (u + v > 0)
