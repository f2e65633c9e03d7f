"""``octave``: a linear code in three octave bands, exact under crops and bounded against forgers.

A picture is described by inner products with tapered cosines in the coordinates of the *original*
frame. For a part of that frame they are taken over what is left of it, so a crop hardly moves them.
Each band is whitened by a matrix that was computed, not trained: the inverse root of how photos
vary plus what distortions do. Nothing here is secret; a key rotates the result (``locking``).
"""

from __future__ import annotations

import itertools
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Floats, Images, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.hashing.shipped import shipped_card, shipped_weights
from coverlock_sdk.hashing.views import OPPONENT, SIDE, Frames, View, rows_of, tapered_cosines
from coverlock_sdk.threads import one_thread

if TYPE_CHECKING:
    import torch

OCTAVES = ((0, 14), (14, 28), (28, 52))
"""The bands of light, in half-waves along a side: above the first number, up to the second."""

COLOURS = 6
"""Half-waves to which the lowest band also has two colours."""


class OctaveCode(ImageHash):
    """Whitened cosines of light and colour in three octave bands, under any frame."""

    name = "octave"
    input_size = (SIDE, SIDE)
    registers = True

    def __init__(self) -> None:
        weights = shipped_weights("octave")
        self.whitening = [weights[f"band-{band}"] for band in range(len(OCTAVES))]
        self.bands = tuple(matrix.shape[1] for matrix in self.whitening)
        self.calibration = Calibration(**shipped_card("octave")["calibration"])

    def code(self, description: Images, frame: Frame = WHOLE) -> Logits:
        """The code (1, dimensions) of one thumbnail, if it shows ``frame``."""
        return self.framed(View(description, frame.aspect), rows_of(frame))

    def logits(self, images: Images) -> Logits:
        """The code (N, dimensions) of each of ``images`` (N, 3, 128, 128) as a whole."""
        return np.concatenate([self.code(image) for image in images])

    @one_thread
    def framed(
        self, view: View, frames: Frames, bands: int = len(OCTAVES), size: int | None = None
    ) -> Logits:
        """The code (frames, dimensions of the lowest ``bands``) if a picture showed each frame."""
        features = _features(view, frames, bands, size)
        parts = [part @ self.whitening[band] for band, part in enumerate(features)]
        return np.concatenate(parts, axis=1)

    @cached_property
    def gram(self) -> Floats:
        """B B^T, where B d is what a change d of a thumbnail does to its code, its mean aside."""
        axis = _whole_axis(OCTAVES[-1][1]).astype(np.float64)
        products, colours = axis @ axis.T, (OPPONENT @ OPPONENT.T).astype(np.float64)
        waves = [
            (np.full(int(mask.sum()), channel), *np.nonzero(mask))
            for band in range(len(OCTAVES))
            for channel, mask in enumerate(masks(band))
        ]
        channel, down, across = (np.concatenate(each) for each in zip(*waves, strict=True))
        pixels = colours[np.ix_(channel, channel)]
        pixels *= products[np.ix_(down, down)] * products[np.ix_(across, across)]
        edges = np.cumsum([len(matrix) for matrix in self.whitening])[:-1]
        blocks = [
            [
                left.T.astype(np.float64) @ block @ right
                for right, block in zip(self.whitening, np.split(row, edges, axis=1), strict=True)
            ]
            for left, row in zip(self.whitening, np.split(pixels, edges), strict=True)
        ]
        return np.block(blocks)

    def gram_of(self, one: int, other: int) -> Floats:
        """The block of the Gram matrix between two bands."""
        edges = list(itertools.pairwise(np.cumsum([0, *self.bands])))
        return self.gram[slice(*edges[one]), slice(*edges[other])]

    def pull_back(self, weights: Logits) -> Images:
        """The change (3, 128, 128) of a thumbnail that ``weights`` (dimensions,) ask for: B^T w."""
        maps = np.zeros((3, SIDE, SIDE), dtype=np.float32)
        parts = np.split(weights, np.cumsum(self.bands)[:-1])
        for band, (matrix, part) in enumerate(zip(self.whitening, parts, strict=True)):
            features = matrix @ part
            for channel, mask in enumerate(masks(band)):
                own, features = np.split(features, [mask.sum()])
                spectrum = np.zeros(mask.shape, dtype=np.float32)
                spectrum[mask] = own
                axis = _whole_axis(len(mask) - 1)
                maps[channel] += axis.T @ spectrum @ axis
        return np.einsum("oc,ohw->chw", OPPONENT, maps)

    def module(self) -> torch.nn.Module:
        """The thumbnail as it is: what a graph returns for the host to try frames on."""
        import torch

        return torch.nn.Identity()


@lru_cache(maxsize=4)
def masks(band: int) -> tuple[npt.NDArray[np.bool_], ...]:
    """Which cosines a band has, per channel: (waves down, waves across)."""
    low, high = OCTAVES[band]
    light = _ring(low, high)
    return (light,) if band else (light, _ring(0, COLOURS), _ring(0, COLOURS))


def _ring(low: int, high: int) -> npt.NDArray[np.bool_]:
    waves = np.arange(high + 1)
    distance = np.hypot(waves[:, None], waves)
    ring: npt.NDArray[np.bool_] = (distance > low) & (distance <= high)
    return ring


def features_of(image: Images, frame: Frame = WHOLE) -> list[Logits]:
    """What the bands of one picture are computed from, before whitening: (features,) each."""
    view = View(image, frame.aspect)
    return [part[0] for part in _features(view, rows_of(frame), len(OCTAVES))]


def _features(view: View, frames: Frames, bands: int, size: int | None = None) -> list[Logits]:
    """Inner products with the basis (frames, features) per band."""
    waves = OCTAVES[bands - 1][1]
    light, *colours = (
        spectra.reshape(len(frames), -1) for spectra in view.spectra(frames, waves, COLOURS, size)
    )
    features = [light.take(_places(band, 0, waves), axis=1) for band in range(bands)]
    ring = _places(0, 1, COLOURS)
    features[0] = np.concatenate([features[0], *(c.take(ring, axis=1) for c in colours)], axis=1)
    return features


@lru_cache(maxsize=16)
def _places(band: int, channel: int, waves: int) -> npt.NDArray[np.intp]:
    """Where the cosines of a band stand in a spectrum of so many waves, laid out in one line."""
    down, across = np.nonzero(masks(band)[channel])
    return down * (waves + 1) + across


def _whole_axis(waves: int) -> npt.NDArray[np.float32]:
    """The tapered cosines (waves + 1, SIDE) of an axis of the whole frame."""
    return tapered_cosines(np.array([[1.0, 0.5]]), waves)[0]
