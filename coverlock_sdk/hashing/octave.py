"""``octave``: a linear code in three octave bands, exact under crops and bounded against forgers.

A picture is described by inner products with smooth basis functions, cosines under a taper, which
live in the coordinates of the *original* frame. If it is known which part of that frame a picture
shows, the same inner products are taken over what is left of it, so a crop hardly moves them. Each
band is whitened by a matrix that was computed, not trained: the inverse root of how photos vary
plus what distortions do. Nothing here is secret; a key rotates the result (``locking.code_maps``).

Because the code is linear, what a forger can reach by a change of a given size is a number that can
be computed (``hashing.bound``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_sdk.arrays import Floats, Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.frames import WHOLE, Frame
from coverlock_sdk.hashing.shipped import shipped_card, shipped_weights
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.threads import one_thread

if TYPE_CHECKING:
    import torch

SIDE = 128
"""Side of the thumbnail that the code is computed from."""

OCTAVES = ((0, 14), (14, 28), (28, 52))
"""The bands of light, in half-waves along a side: above the first number, up to the second."""

COLOURS = 6
"""Half-waves to which the lowest band also has two colours."""

OPPONENT: Images = np.array(
    [[0.299, 0.587, 0.114], [0.5, -0.25, -0.25], [-0.25, -0.25, 0.5]], dtype=np.float32
)
"""Light, reddishness and bluishness of RGB."""

TAPER = 0.3
"""The share of a side over which the taper rises from zero at the border to one."""

Matrix = npt.NDArray[np.float32]


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

    def describe(self, images: Images) -> Images:
        """The pictures themselves: frames are tried on them, so nothing may be lost."""
        return images

    def code(self, description: Images, frame: Frame = WHOLE) -> Logits:
        """The code (1, dimensions) of one thumbnail, if it shows ``frame``."""
        return self.framed(description, [frame])

    def logits(self, images: Images) -> Logits:
        """The code (N, dimensions) of each of ``images`` (N, 3, 128, 128) as a whole."""
        return np.concatenate([self.framed(image, [WHOLE]) for image in images])

    @one_thread
    def framed(self, image: Images, frames: Sequence[Frame], bands: int = len(OCTAVES)) -> Logits:
        """The code (frames, dimensions) of one picture if it showed each of ``frames``.

        Only the lowest ``bands`` of them, if asked, which costs less.
        """
        maps = opponent_maps(image)
        found = np.empty((len(frames), sum(self.bands[:bands])), dtype=np.float32)
        for turn in {frame.turn for frame in frames}:
            rows = [row for row, frame in enumerate(frames) if frame.turn == turn]
            features = _features(maps, [frames[row] for row in rows], bands)
            parts = [part @ self.whitening[band] for band, part in enumerate(features)]
            found[rows] = np.concatenate(parts, axis=1)
        return found

    @cached_property
    def gram(self) -> Floats:
        """The products of what each dimension does to the pixels of a thumbnail.

        A change of the thumbnail by d moves the code by B d, and this is B B^T. That the mean is
        removed is left out.
        """
        axis = axes(((1.0, 0.5),), OCTAVES[-1][1])[0].astype(np.float64)
        products, colours = axis @ axis.T, (OPPONENT @ OPPONENT.T).astype(np.float64)
        waves = [
            (np.full(int(mask.sum()), channel), *np.nonzero(mask))
            for band in range(len(OCTAVES))
            for channel, mask in enumerate(masks(band))
        ]
        channel, down, across = (np.concatenate(each) for each in zip(*waves, strict=True))
        pixels = colours[np.ix_(channel, channel)]
        pixels *= products[np.ix_(down, down)] * products[np.ix_(across, across)]
        edges = np.cumsum([0, *(len(matrix) for matrix in self.whitening)])
        blocks = [
            [
                left.T.astype(np.float64) @ pixels[a : a + len(left), b : b + len(right)] @ right
                for b, right in zip(edges, self.whitening, strict=False)
            ]
            for a, left in zip(edges, self.whitening, strict=False)
        ]
        return np.block(blocks)

    def band_grams(self) -> list[Floats]:
        """The blocks of the Gram matrix within each band."""
        edges = np.cumsum([0, *self.bands])
        return [self.gram[a:b, a:b] for a, b in itertools.pairwise(edges)]

    def pull_back(self, weights: Logits) -> Images:
        """The change (3, 128, 128) of a thumbnail that ``weights`` (dimensions,) ask for: B^T w."""
        maps = np.zeros((3, SIDE, SIDE), dtype=np.float32)
        start = 0
        for band, matrix in enumerate(self.whitening):
            features = matrix @ weights[start : start + matrix.shape[1]]
            start += matrix.shape[1]
            place = 0
            for channel, mask in enumerate(masks(band)):
                spectrum = np.zeros(mask.shape, dtype=np.float32)
                count = int(mask.sum())
                spectrum[mask] = features[place : place + count]
                place += count
                axis = axes(((1.0, 0.5),), len(mask) - 1)[0]
                maps[channel] += axis.T @ spectrum @ axis
        return np.einsum("oc,ohw->chw", OPPONENT, maps)

    def module(self) -> torch.nn.Module:
        """The thumbnail as it is: what a graph returns for the host to try frames on."""
        import torch

        return torch.nn.Identity()


def opponent_maps(image: Images) -> Images:
    """Light and two colours (3, H, W) of a picture (3, H, W)."""
    return np.einsum("oc,chw->ohw", OPPONENT, image)


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
    return [part[0] for part in _features(opponent_maps(image), [frame], len(OCTAVES))]


def _features(maps: Images, frames: Sequence[Frame], bands: int) -> list[Logits]:
    """Inner products with the basis (frames, features) per band, for frames of one turn."""
    seen, stretch = None, 1.0
    if frames[0].turn:
        maps, seen, stretch = _turned(maps, frames[0].turn)
    spectra = _spectra(maps[0], seen, frames, stretch, OCTAVES[bands - 1][1])
    features = []
    for band in range(bands):
        light = masks(band)[0]
        features.append(spectra[:, : len(light), : len(light)][:, light])
    colours = [_spectra(maps[c], seen, frames, stretch, COLOURS) for c in (1, 2)]
    ring = masks(0)[1]
    features[0] = np.concatenate([features[0], *(c[:, ring] for c in colours)], axis=1)
    return features


def _spectra(
    values: Images, seen: Images | None, frames: Sequence[Frame], stretch: float, top: int
) -> Images:
    """Products of one map with all cosines up to ``top``, its tapered mean removed: (F, U, U).

    ``seen`` is 1 where the map shows the picture; None: everywhere.
    """
    sides = [frame.side * stretch for frame in frames]
    down = [(side, frame.y) for side, frame in zip(sides, frames, strict=True)]
    places = {place: number for number, place in enumerate(dict.fromkeys(down))}
    number = [places[place] for place in down]
    rows = axes(tuple(places), top)
    columns = axes(tuple((side, frame.x) for side, frame in zip(sides, frames, strict=True)), top)
    across = columns.transpose(0, 2, 1)
    spectra = np.matmul(np.matmul(rows, values)[number], across)
    if seen is None:
        flat = rows.sum(axis=2)[number][:, :, None] * columns.sum(axis=2)[:, None]
    else:
        flat = np.matmul(np.matmul(rows, seen)[number], across)
    mean = spectra[:, :1, :1] / np.maximum(flat[:, :1, :1], np.float32(1e-12))
    return spectra - mean * flat


@lru_cache(maxsize=32)
def axes(parts: tuple[tuple[float, float], ...], top: int) -> Matrix:
    """The tapered cosines (N, top + 1, SIDE) of axes that show parts of the frame's axis.

    A part is the share of the frame's side that is seen, and where its centre lies.
    """
    grid = (np.arange(SIDE) + 0.5) / SIDE - 0.5
    side, centre = np.asarray(parts, dtype=np.float64).T[:, :, None]
    places = centre + grid * side
    border = np.clip(np.minimum(places, 1 - places) / TAPER, 0, 1)
    rise = np.sin(np.pi / 2 * border) ** 2 * side / SIDE
    step = np.cos(np.pi * places)
    waves = np.empty((len(side), top + 1, SIDE), dtype=np.float32)
    # cos(u a) = 2 cos(a) cos((u - 1) a) - cos((u - 2) a), many times cheaper than so many cosines.
    before, here = rise, rise * step
    waves[:, 0], waves[:, 1] = before, here
    for wave in range(2, top + 1):
        before, here = here, 2 * step * here - before
        waves[:, wave] = here
    waves.setflags(write=False)
    return waves


def _turned(maps: Images, turn: float) -> tuple[Images, Images, float]:
    """Maps turned back by ``turn`` degrees, where they show the picture, and how much wider."""
    angle = math.radians(turn)
    cos, sin = math.cos(angle), math.sin(angle)
    stretch = cos + abs(sin)
    half = SIDE / 2
    matrix = (
        *(stretch * cos, stretch * sin, half - half * stretch * (cos + sin)),
        *(-stretch * sin, stretch * cos, half - half * stretch * (cos - sin)),
    )

    def turned(values: Images, filter: Image.Resampling) -> Images:
        image = Image.fromarray(values).transform(
            (SIDE, SIDE), Image.Transform.AFFINE, matrix, filter
        )
        return np.asarray(image)

    seen = turned(np.ones((SIDE, SIDE), dtype=np.float32), Image.Resampling.BILINEAR)
    return np.stack([turned(m, Image.Resampling.BICUBIC) for m in maps]) * seen, seen, stretch
