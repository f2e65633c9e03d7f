"""What a forger without the key does to a picture of his own, so that its code agrees.

He has every network and the matrices of the octave code. Pictures are 8-bit RGB (H, W,
3), codes (dimensions,).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter
from scipy.stats import norm
from torch.nn import functional

from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_export.graphs import Resampling
from coverlock_sdk.arrays import Floats, Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.octave import OCTAVES, OctaveCode, masks
from coverlock_sdk.hashing.views import OPPONENT, SIDE, tapered_cosines
from coverlock_sdk.images.resampling import resample, resample_matrix
from coverlock_sdk.locking.bound import agreement, passing, spectra
from coverlock_sdk.locking.hardening import MARGIN
from coverlock_sdk.locking.verdict import Floors

PARTS = 4
"""Parts of a change's energy that are dealt to the bands."""


def code_of(code: ImageHash, picture: Picture8) -> Logits:
    """The code (dimensions,) of a picture as a whole."""
    return code.logits(resample(to_float(picture), code.input_size)[None])[0]


def band_cosines(code: ImageHash, one: Logits, other: Logits) -> list[float]:
    """The cosine of two codes in each band."""
    edges = np.cumsum(code.bands)[:-1]
    return [
        float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))
        for a, b in zip(np.split(one, edges), np.split(other, edges), strict=True)
    ]


def nearest(code: ImageHash, own: Logits, sources: Logits) -> tuple[int, int]:
    """Which of a forger's codes (N, dimensions) is nearest to which of the sources' (K, ...)."""
    edges = np.cumsum(code.bands)[:-1]
    cosines = sum(
        _unit(a) @ _unit(b).T
        for a, b in zip(np.split(own, edges, 1), np.split(sources, edges, 1), strict=True)
    )
    row, column = np.unravel_index(int(np.argmax(cosines)), np.shape(cosines))
    return int(row), int(column)


def _unit(codes: Logits) -> Logits:
    unit: Logits = codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-12)
    return unit


# Additive changes


def additive(code: OctaveCode, picture: Picture8, source: Logits, decibels: float) -> Picture8:
    """The change of so many decibels after which ``source`` is most likely taken for the picture.

    Exact for each band. How much of it goes to which band is tried out on the odds to reach all
    floors, for the margins that marked pictures typically have.
    """
    edges = np.cumsum(code.bands)[:-1]
    length = math.sqrt(10 ** (-decibels / 10) * 3 * SIDE**2)
    own = np.split(code_of(code, picture), edges)
    reached = [
        [
            best_change(z, s, *spectra(code)[band], length * math.sqrt(part / PARTS))
            for part in range(PARTS + 1)
        ]
        for band, (z, s) in enumerate(zip(own, np.split(source, edges), strict=True))
    ]
    split = max(
        (s for s in itertools.product(range(PARTS + 1), repeat=len(own)) if sum(s) == PARTS),
        key=lambda split: _typical_odds([r[s][0] for r, s in zip(reached, split, strict=True)]),
    )
    weights = np.concatenate([r[s][1] for r, s in zip(reached, split, strict=True)])
    return with_change(picture, code.pull_back(weights.astype(np.float32)), decibels)


def best_change(
    target: Logits, source: Logits, reach: Floats, directions: Floats, length: float
) -> tuple[float, Floats]:
    """The largest cos(z + B d, s) over |d| <= length, and the weights w of d = B^T w.

    The optimum of ``locking.bound``, for all weights k of a scan at once.
    """
    z, s = target @ directions, source @ directions
    s = s / max(float(np.linalg.norm(s)), 1e-12)
    around, width = -math.log(max(float(np.linalg.norm(z)), 1e-6)), 12.0
    best, weights = float(s @ z / max(float(np.linalg.norm(z)), 1e-12)), np.zeros(len(z))
    for _ in range(6 if length else 0):
        grid = np.linspace(around - width, around + width, 13)
        k = np.exp(grid)[:, None]
        low, high = np.full((13, 1), -30.0), np.full((13, 1), 30.0)
        for _ in range(40):
            middle = (low + high) / 2
            w = (s - k * z) / (np.exp(middle) + k * np.square(reach))
            long = np.linalg.norm(reach * w, axis=1, keepdims=True) > length
            low, high = np.where(long, middle, low), np.where(long, high, middle)
        w = (s - k * z) / (np.exp(high) + k * np.square(reach))
        y = z + np.square(reach) * w
        cosines = y @ s / np.maximum(np.linalg.norm(y, axis=1), 1e-12)
        place = int(np.argmax(cosines))
        if cosines[place] > best:
            best, weights = float(cosines[place]), w[place]
        around, width = float(grid[place]), width / 5
    return min(best, 1.0), directions @ weights


def _typical_odds(cosines: Sequence[float], bits: int = 64) -> float:
    bands = len(cosines)
    every = np.empty(bits)
    for band, cosine in enumerate(cosines):
        count = len(range(band, bits, bands))
        margins = np.maximum(norm.ppf(0.5 + (np.arange(count) + 0.5) / (2 * count)), MARGIN)
        every[band::bands] = agreement(cosine, margins.astype(np.float32))
    return passing(every, bands, Floors())


def with_change(picture: Picture8, change: Images, decibels: float) -> Picture8:
    """A picture with a change of its thumbnail (3, 128, 128), made so many decibels strong."""
    lift = _lift(len(picture))
    wide: Images = np.matmul(np.matmul(lift, change), lift.T)
    strength = 10 ** (-decibels / 20) / max(float(np.sqrt(np.square(wide).mean())), 1e-12)
    changed: Images = to_float(picture) + np.float32(strength) * wide
    return to_8_bit(changed)


@lru_cache(maxsize=4)
def _lift(side: int) -> Images:
    """Weights (side, 128) of the least change whose thumbnail is the one that is wanted."""
    return np.linalg.pinv(resample_matrix(side, SIDE).astype(np.float64)).astype(np.float32)


def limited(picture: Picture8, changed: Picture8, decibels: float) -> Picture8:
    """A changed picture, brought back toward the first until the change has so many decibels."""
    before, change = to_float(picture), to_float(changed) - to_float(picture)
    size = max(float(np.sqrt(np.square(change).mean())), 1e-12)
    return to_8_bit(before + np.float32(min(1.0, 10 ** (-decibels / 20) / size)) * change)


# Compositions


def blurred(picture: Picture8, sigma: float) -> Images:
    """A picture (H, W, 3) of floats, its fine detail gone."""
    return gaussian_filter(picture.astype(np.float32), (sigma, sigma, 0))


def hybrid(low_of: Picture8, high_of: Picture8, half_waves: float) -> Picture8:
    """Low frequencies of one picture under the high ones of another, which people see."""
    sigma = len(low_of) / (math.pi * half_waves) * 1.2
    mixed = blurred(low_of, sigma) + high_of - blurred(high_of, sigma)
    return _rounded(mixed)


def mixed(inside: Picture8, outside: Picture8, share: float) -> Picture8:
    """One picture with the middle ``share`` of its area taken from another."""
    side = len(outside)
    half = round(side * math.sqrt(share) / 2)
    middle = slice(side // 2 - half, side // 2 + half)
    picture = outside.copy()
    picture[middle, middle] = inside[middle, middle]
    return picture


def card(background: Picture8, sigma: float, box: tuple[float, float, float, float]) -> Picture8:
    """A text card on a blurred copy; ``box`` is left, top, right, bottom in shares of a side."""
    return written(_rounded(blurred(background, sigma)), box)


def written(picture: Picture8, box: tuple[float, float, float, float]) -> Picture8:
    """A picture with lines of text on a light field that covers ``box``."""
    side = len(picture)
    left, top, right, bottom = (round(edge * side) for edge in box)
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    draw.rectangle((left, top, right - 1, bottom - 1), fill=(244, 242, 236))
    size = side // 18
    font = ImageFont.load_default(size)
    for line, y in enumerate(range(top + 4, bottom - size, size + 4)):
        text = "Fresh offers today and every day of the week "[line * 5 :]
        while text and draw.textlength(text, font=font) > right - left - 8:
            text = text[:-1]
        draw.text((left + 4, y), text, fill=(30, 30, 34), font=font)
    return np.asarray(image)


def sticker(picture: Picture8, share: float = 0.04) -> Picture8:
    """A picture with a disc that covers ``share`` of its area near a corner."""
    image = Image.fromarray(picture)
    side = len(picture)
    radius, x, y = side * math.sqrt(share / math.pi), 0.8 * side, 0.8 * side
    box = (x - radius, y - radius, x + radius, y + radius)
    ImageDraw.Draw(image).ellipse(box, fill=(228, 40, 48), outline=(255, 255, 255), width=3)
    return np.asarray(image)


def bordered(picture: Picture8, share: float = 0.04) -> Picture8:
    """A picture whose rim, ``share`` of a side wide, is painted white."""
    width = round(share * len(picture))
    framed = np.full_like(picture, 255)
    framed[width:-width, width:-width] = picture[width:-width, width:-width]
    return framed


def _rounded(picture: Images) -> Picture8:
    whole: Picture8 = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
    return whole


def views(picture: Picture8) -> list[Picture8]:
    """The crops and mirror images of a picture that a forger may start from."""
    side = len(picture)
    found = [picture]
    for share in (0.88, 0.76):
        edge = round(share * side)
        starts = (0, (side - edge) // 2, side - edge)
        for top, left in itertools.product(starts, starts):
            part = np.ascontiguousarray(picture[top : top + edge, left : left + edge])
            found.append(to_8_bit(resample(to_float(part), (side, side))))
    return found + [np.ascontiguousarray(view[:, ::-1]) for view in found]


# Edits by gradient


class TorchCode:
    """The octave code as PyTorch computes it, so that it has gradients."""

    def __init__(self, code: OctaveCode) -> None:
        axis = tapered_cosines(np.array([[1.0, 0.5]]), OCTAVES[-1][1])[0]
        self.axis, self.flat = torch.tensor(axis), torch.tensor(np.outer(*[axis.sum(axis=1)] * 2))
        self.opponent = torch.tensor(OPPONENT)
        self.whitening = [torch.tensor(matrix) for matrix in code.whitening]
        self.masks = [[torch.tensor(m) for m in masks(band)] for band in range(len(OCTAVES))]

    def __call__(self, image: torch.Tensor) -> list[torch.Tensor]:
        """The bands of a picture (3, 128, 128)."""
        maps = torch.einsum("oc,chw->ohw", self.opponent, image)
        found = self.axis @ maps @ self.axis.T
        found = found - found[:, :1, :1] / self.flat[0, 0] * self.flat
        return [
            torch.cat([found[c, : len(m), : len(m)][m] for c, m in enumerate(rings)]) @ matrix
            for rings, matrix in zip(self.masks, self.whitening, strict=True)
        ]


def with_gradients(code: ImageHash) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """The bands of a picture (3, *input_size) by any hash that PyTorch can compute."""
    if isinstance(code, OctaveCode):
        return TorchCode(code)
    network = code.module()
    if network is None:
        raise CoverLockError(f"the hash '{code.name}' is no network: no gradient can be followed")
    network.requires_grad_(False)
    return lambda image: list(network(image[None])[0].split(code.bands))


class SeenThrough(ImageHash):
    """A network that hashes what a watermark sees, which may be smaller than its own input."""

    def __init__(self, image_hash: ImageHash, size: tuple[int, int]) -> None:
        self.name, self.bands, self.input_size = image_hash.name, image_hash.bands, size
        self._hash = image_hash

    def logits(self, images: Images) -> Logits:
        """The logits of pictures (N, 3, *size) that are brought to the input of the network."""
        return self._hash.logits(resample(images, self._hash.input_size))

    def module(self) -> torch.nn.Module | None:
        """The same with gradients."""
        network = self._hash.module()
        if network is None:
            return None
        return torch.nn.Sequential(Resampling(self.input_size, self._hash.input_size), network)


@dataclass(frozen=True)
class Style:
    """How far a forger goes; fields are smooth and vary over so many places a side."""

    residual: float
    """Decibels of the additive change on top."""
    places: int = 1
    warp: float = 0.0
    """Shares of the side."""
    light: float = 0.0
    colour: float = 0.0
    """Of each entry of the colour matrix."""
    tint: float = 0.0
    sharpness: float = 0.0
    total: float | None = None
    """Decibels that everything may cost but the payload; None: as the ranges allow."""

    def fields(self, side: int) -> dict[str, torch.Tensor]:
        """Parameters of all edits, at rest, for pictures that a hash sees at ``side`` pixels."""
        n = self.places
        shapes = {"warp": (2, n, n), "light": (1, n, n), "tint": (3, n, n), "sharp": (1, n, n)}
        return {
            name: torch.zeros(shape, requires_grad=True)
            for name, shape in {**shapes, "colour": (3, 3), "residual": (3, side, side)}.items()
        }

    def edited(self, image: torch.Tensor, fields: dict[str, torch.Tensor]) -> torch.Tensor:
        """A picture (3, H, W) under the edits, which are the same at every size."""
        side = image.shape[-1]
        values = {name: torch.tanh(field) for name, field in fields.items()}
        found = image
        if self.warp:
            grid = (torch.arange(side) + 0.5) / side * 2 - 1
            places = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), -1)
            moved = places + 2 * self.warp * _wide(values["warp"], side).permute(1, 2, 0)
            found = functional.grid_sample(
                found[None], moved[None], "bicubic", "border", align_corners=False
            )[0]
        if self.sharpness:
            found = found + self.sharpness * _wide(values["sharp"], side) * (found - _soft(found))
        if self.colour:
            found = torch.einsum(
                "cd,dhw->chw", torch.eye(3) + self.colour * values["colour"], found
            )
        found = found * (1 + self.light * _wide(values["light"], side))
        found = found + self.tint * _wide(values["tint"], side)
        if self.total is not None:
            found = image + _at_most(found - image, self.total)
        return found.clamp(0, 1)


MILD = Style(residual=38, places=6, warp=0.0125, light=0.1, colour=0.05)
"""Photographic edits that nobody notices."""


def restyle(decibels: float) -> Style:
    """Light, tint, local sharpness and grain, plain to see."""
    return Style(28, 14, light=0.6, tint=0.2, sharpness=1.5, total=decibels)


def edited(
    code: ImageHash, picture: Picture8, carried: Picture8, source: Logits, style: Style, steps: int
) -> Picture8:
    """A picture under the edits by which its code comes nearest to ``source``, without residual.

    ``carried`` is the same picture with the payload in it, whose code counts. Edits and an additive
    change are sought together; the change is left to ``additive`` or ``moved``.
    """
    found = _sought(code, carried, source, style, steps)
    with torch.no_grad():
        final: Any = style.edited(torch.tensor(to_float(picture)), found)
    return to_8_bit(final.numpy())


def moved(
    code: ImageHash, picture: Picture8, source: Logits, decibels: float, steps: int
) -> Picture8:
    """A picture with the change of so many decibels that gradients find for a network."""
    found = _sought(code, picture, source, Style(decibels), steps)["residual"]
    side = len(picture)
    wide = functional.interpolate(found[None], (side, side), mode="bicubic", align_corners=False)[0]
    changed: Images = to_float(picture) + _at_most(0.1 * wide, decibels).numpy()
    return to_8_bit(changed)


def _sought(
    code: ImageHash, carried: Picture8, source: Logits, style: Style, steps: int
) -> dict[str, torch.Tensor]:
    """The fields of a style under which the mean cosine over all bands is largest."""
    compute = with_gradients(code)
    parts = np.split(source / np.linalg.norm(source), np.cumsum(code.bands)[:-1])
    wanted = [functional.normalize(torch.tensor(part), dim=0) for part in parts]
    seen = torch.tensor(resample(to_float(carried), code.input_size))
    fields = style.fields(code.input_size[0])
    adam = torch.optim.Adam(fields.values(), lr=0.08)
    best, kept = -1.0, {name: field.detach().clone() for name, field in fields.items()}
    for _ in range(steps):
        adam.zero_grad()
        changed = style.edited(seen, fields) + _at_most(0.1 * fields["residual"], style.residual)
        bands = compute(changed)
        cosine = torch.stack(
            [functional.normalize(z, dim=0) @ s for z, s in zip(bands, wanted, strict=True)]
        ).mean()
        if cosine.item() > best:
            best = cosine.item()
            kept = {name: field.detach().clone() for name, field in fields.items()}
        torch.autograd.backward(-cosine)
        adam.step()
    return kept


def _wide(field: torch.Tensor, side: int) -> torch.Tensor:
    wide = functional.interpolate(field[None], (side, side), mode="bicubic", align_corners=False)
    return wide[0].clamp(-1, 1)


def _soft(image: torch.Tensor) -> torch.Tensor:
    """A blurred copy; the window is the same share of a side at every size."""
    reach = image.shape[-1] // SIDE * 2
    padded = functional.pad(image[None], [reach] * 4, mode="replicate")
    return functional.avg_pool2d(padded, 2 * reach + 1, stride=1)[0]


def _at_most(change: torch.Tensor, decibels: float) -> torch.Tensor:
    size = change.square().mean().clamp(min=1e-12).sqrt()
    return change * (10 ** (-decibels / 20) / size).clamp(max=1)
