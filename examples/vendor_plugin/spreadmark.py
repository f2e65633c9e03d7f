"""Spreadmark: 64 bits spread over the mid frequencies of a picture, a plugin for CoverLock SDK.

The first half of this file is the contract, the second the signal processing behind it.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt

from coverlock_sdk import Calibration, Watermark, hookimpl

Array = npt.NDArray[np.float32]


class Spreadmark(Watermark):
    """Keyed spread spectrum in the 8 x 8 block DCT of luminance, after Cox et al. (1997).

    Every bit is the sign of a pseudo-random pattern of 288 coefficients, and the key says which.
    The pattern is as strong as the texture around it hides. The decoder correlates.
    """

    name = "spreadmark"
    bits = 64
    native_size = (256, 256)
    # From `coverlock calibrate spreadmark --images TRAINING_PHOTOS --count 500`.
    calibration = Calibration(scale=1.3924, power=1.6037)

    def __init__(self, key: str = "public") -> None:
        self._patterns = spreading_patterns(key, self.bits)

    def embed(self, images: Array, payloads: npt.NDArray[np.uint8]) -> Array:
        """Add the pattern of every bit, upright for a 1 and inverted for a 0."""
        spectrum = mid_frequencies(images)
        signs = 2 * payloads.astype(np.float32) - 1
        chips = (signs @ self._patterns).reshape(spectrum.shape)
        residual = from_mid_frequencies(chips * hidden_amplitude(spectrum))
        return np.clip(images + residual[:, None], 0, 1)  # alike in R, G and B: luminance only

    def decode(self, images: Array) -> Array:
        """Correlate with the pattern of every bit; chance alone stays within about +-2."""
        evidence = whitened(mid_frequencies(images)).reshape(len(images), -1)
        return evidence @ self._patterns.T / math.sqrt(evidence.shape[1] / self.bits)


@hookimpl
def register_watermarks(register):
    register(Spreadmark)


BLOCK = 8
GRID = 256 // BLOCK
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)

_frequency, _position = np.arange(BLOCK)[:, None], np.arange(BLOCK) + 0.5
DCT = np.cos(np.pi * _frequency * _position / BLOCK) * np.sqrt(2 / BLOCK)
DCT[0] /= np.sqrt(2)
DCT = DCT.astype(np.float32)  # orthonormal: DCT.T undoes it

_diagonal = np.add.outer(np.arange(BLOCK), np.arange(BLOCK))
BAND = (_diagonal >= 2) & (_diagonal <= 5)  # below it marks are seen, above it JPEG drops them


def spreading_patterns(key: str, bits: int) -> Array:
    """One pattern (of -1, 0 and +1) per bit, disjoint, and the same on every machine."""
    chips = GRID * GRID * int(BAND.sum())
    noise = hashlib.shake_256(key.encode()).digest(5 * chips)
    signs = 1 - 2 * (np.frombuffer(noise[:chips], dtype=np.uint8) % 2).astype(np.float32)
    order = np.argsort(np.frombuffer(noise[chips:], dtype="<u4"), kind="stable")
    patterns = np.zeros((bits, chips), dtype=np.float32)
    patterns[np.arange(chips) % bits, order] = signs
    return patterns


def mid_frequencies(images: Array) -> Array:
    """The coefficients (N, blocks, band) of the luminance of ``images`` (N, 3, 256, 256)."""
    luminance = np.einsum("nchw,c->nhw", images, LUMA)
    blocks = luminance.reshape(-1, GRID, BLOCK, GRID, BLOCK).swapaxes(2, 3)
    return (DCT @ blocks @ DCT.T).reshape(len(images), GRID * GRID, BLOCK, BLOCK)[:, :, BAND]


def from_mid_frequencies(spectrum: Array) -> Array:
    """The picture (N, 256, 256) whose only coefficients are those of ``spectrum``."""
    blocks = np.zeros((len(spectrum), GRID * GRID, BLOCK, BLOCK), dtype=np.float32)
    blocks[:, :, BAND] = spectrum
    blocks = (DCT.T @ blocks @ DCT).reshape(-1, GRID, GRID, BLOCK, BLOCK)
    return blocks.swapaxes(2, 3).reshape(-1, GRID * BLOCK, GRID * BLOCK)


def activity(spectrum: Array) -> Array:
    """How much texture each block has: the root mean square of its coefficients."""
    return np.sqrt(np.mean(np.square(spectrum), axis=-1, keepdims=True))


def hidden_amplitude(spectrum: Array) -> Array:
    """How large a change each block hides: much in grass, little in sky."""
    return np.clip(0.5 * activity(spectrum), 0.01, 0.024)


def whitened(spectrum: Array) -> Array:
    """Coefficients relative to their block's texture, so that no block outvotes the others."""
    return np.clip(spectrum / (activity(spectrum) + 0.01), -2, 2)
