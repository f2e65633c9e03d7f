"""Training pictures and their distorted views (appendix B.3 of the paper).

Two ways to make a view. *Fresh*: the distortions of ``coverlock_sdk.images.distortions`` on the
8-bit picture at its own size, one per view, exactly as the paper has it. *Composed*: the same
kinds of change, several at once, as tensor operations on shrunken pictures that are kept in a
cache; that is some twenty times faster. Only JPEG is real there, and comes from the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from coverlock_sdk.images.distortions import (
    EVALUATION,
    TRAINING,
    draw_sharing,
    draw_training_distortion,
)
from coverlock_sdk.images.resampling import resample_matrix, triangle_filter
from coverlock_sdk.training.photos import Bytes, cached_rows, rgb, rounded, shrunk

NATIVE = 256
"""Side of the training photos, which the strengths of blur and noise refer to."""

CACHED = 144
"""Side of the cached pictures: enough for a crop of any size ``nano`` is trained with."""


Rows = npt.NDArray[np.int64]


class Pairs(Protocol):
    """Where the two views of a picture come from: pictures, or cached features of them."""

    def __len__(self) -> int: ...

    def pairs(self, rows: Rows, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Clean and distorted inputs of the pictures at ``rows``."""
        ...


class FreshViews:
    """One distortion of the paper's training distribution per picture, at the picture's size."""

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self.paths, self.size = paths, size

    def __len__(self) -> int:
        return len(self.paths)

    def pairs(self, rows: Rows, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Clean and distorted views (len(rows), 3, size, size) of the pictures at ``rows``."""
        pictures = [rgb(self.paths[row]) for row in rows]
        distorted = [draw_training_distortion(rng)(picture, rng) for picture in pictures]
        clean = np.stack([shrunk(picture, self.size) for picture in pictures])
        views = np.stack([shrunk(picture, self.size) for picture in distorted])
        return torch.from_numpy(clean), torch.from_numpy(views)


@dataclass(frozen=True)
class Composition:
    """How composed views are drawn: each kind of change with its probability and its range.

    Strengths are those at the picture's own size. ``area`` is the share of the picture that a
    crop keeps, ``centred`` the share of crops that keep the centre.
    """

    crop: float = 0.85
    area: tuple[float, float] = (0.70, 0.95)
    centred: float = 0.5
    brightness: float = 0.25
    brightness_factor: tuple[float, float] = (0.65, 1.4)
    contrast: float = 0.25
    contrast_factor: tuple[float, float] = (0.65, 1.4)
    blur: float = 0.2
    blur_sigma: tuple[float, float] = (0.3, 2.0)
    noise: float = 0.2
    noise_sigma: tuple[float, float] = (0.005, 0.06)
    jpeg: float = 0.5
    rotation: float = 0.0
    rotation_degrees: tuple[float, float] = (-6.0, 6.0)
    colour: float = 0.0
    saturation_factor: tuple[float, float] = (0.6, 1.4)
    hue_turn: tuple[float, float] = (-0.06, 0.06)
    """In turns of the colour circle."""


class ComposedViews:
    """Several distortions at once, as tensor operations on cached, shrunken pictures.

    Of both views of a picture the same central window is shown, drawn from ``zooms``; pictures in
    consecutive rows, which may share a template, are shown through the same one. Of every
    picture ``jpegs`` compressed copies are cached, and ``shared`` ones as social media make them.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        size: int,
        cache: Path,
        composition: Composition,
        *,
        zooms: Sequence[float] = (1.0,),
        cached: int = CACHED,
        jpegs: int = 3,
        shared: int = 0,
        seed: int = 0,
    ) -> None:
        def copies(path: Path) -> Bytes:
            rng = np.random.default_rng([seed, *path.name.encode()])
            picture = rgb(path)
            compressed = [TRAINING["jpeg"](rng)(picture, rng) for _ in range(jpegs)]
            compressed += [draw_sharing(rng)(picture, rng) for _ in range(shared)]
            return np.stack([rounded(shrunk(copy, cached)) for copy in (picture, *compressed)])

        self.size, self.composition, self.zooms = size, composition, np.array(zooms)
        settings = {"size": cached, "jpegs": jpegs, "shared": shared, "seed": seed}
        self.pictures: Bytes = cached_rows(
            paths, cache, "training", copies, "training pictures", **settings
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def pairs(self, rows: Rows, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Clean and distorted views (len(rows), 3, size, size) of the pictures at ``rows``."""
        zoom = torch.from_numpy(rng.choice(self.zooms, len(rows)).astype(np.float32))[_runs(rows)]
        clean = torch.from_numpy(self.pictures[rows, 0]).float() / 255
        side = self.pictures.shape[-1]
        window = side * zoom
        whole = _window_matrices(side, self.size, (side - window) / 2, window)[:, None]
        copy = rng.integers(1, self.pictures.shape[1], len(rows))
        copy *= rng.random(len(rows)) < self.composition.jpeg
        source = torch.from_numpy(self.pictures[rows, copy]).float() / 255
        distorted = composed(source, self.size, self.composition, zoom, rng)
        return whole @ clean @ whole.transpose(-1, -2), distorted


def _runs(rows: Rows) -> Rows:
    """For each place in ``rows``, the place where its run of consecutive numbers begins."""
    begins = np.diff(rows, prepend=rows[0] - 2) != 1
    return np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))


def composed(
    source: Tensor, size: int, composition: Composition, zoom: Tensor, rng: np.random.Generator
) -> Tensor:
    """Rotation, crop, blur, colour, light and noise, each drawn by itself for every picture.

    Differentiable: (N, 3, S, S) -> (N, 3, size, size), of which the central share ``zoom`` (N,)
    is shown.
    """
    count, side = len(source), source.shape[-1]

    def draw(probability: float, bounds: tuple[float, float], neutral: float) -> Tensor:
        values = rng.uniform(*bounds, count)
        kept = np.where(rng.random(count) < probability, values, neutral)
        return torch.from_numpy(kept.astype(np.float32))

    kept = draw(composition.crop, composition.area, 1.0).sqrt() * side
    place = torch.from_numpy(rng.random((2, count), dtype=np.float32))
    place[:, torch.from_numpy(rng.random(count) < composition.centred)] = 0.5
    if composition.rotation:
        turn = draw(composition.rotation, composition.rotation_degrees, 0.0).deg2rad()
        source, turned = _turned(source, turn), turn != 0
        kept = torch.where(turned, kept.clamp(max=side / (turn.cos() + turn.abs().sin())), kept)
        place[:, turned] = 0.5
    window = kept * zoom
    start = (side - kept) * place + (kept - window) / 2
    sigma = draw(composition.blur, composition.blur_sigma, 0.0) * size / NATIVE / zoom
    soften = _blur_matrices(sigma, size)
    rows = soften @ _window_matrices(side, size, start[0], window)
    columns = soften @ _window_matrices(side, size, start[1], window)
    views = rows[:, None] @ source @ columns[:, None].transpose(-1, -2)
    if composition.colour:
        saturation = draw(composition.colour, composition.saturation_factor, 1.0)
        hue = draw(composition.colour, composition.hue_turn, 0.0)
        views = torch.einsum("nij,njhw->nihw", _colour_matrices(saturation, hue), views)
    brightness = draw(composition.brightness, composition.brightness_factor, 1.0).view(-1, 1, 1, 1)
    views = (views * brightness).clamp(0, 1)
    contrast = draw(composition.contrast, composition.contrast_factor, 1.0).view(-1, 1, 1, 1)
    grey = views.mean(dim=(1, 2, 3), keepdim=True)
    views = (grey + (views - grey) * contrast).clamp(0, 1)
    # White noise loses a share of its deviation when both axes are shrunk.
    left = float(np.square(resample_matrix(NATIVE, size)).sum(axis=1).mean())
    strength = draw(composition.noise, composition.noise_sigma, 0.0) * left
    noise = torch.from_numpy(rng.standard_normal(views.shape, dtype=np.float32))
    return (views + noise * strength.view(-1, 1, 1, 1)).clamp(0, 1)


def _turned(source: Tensor, turn: Tensor) -> Tensor:
    """Pictures rotated about their centres by ``turn`` (N,), in radians; most may be zero."""
    rows = turn.nonzero().flatten()
    if not len(rows):
        return source
    cos, sin, zero = turn[rows].cos(), turn[rows].sin(), torch.zeros(len(rows))
    matrices = torch.stack([cos, -sin, zero, sin, cos, zero], dim=1).view(-1, 2, 3)
    places = functional.affine_grid(matrices, list(source[rows].shape), align_corners=False)
    turned = source.clone()
    turned[rows] = functional.grid_sample(
        source[rows], places, padding_mode="border", align_corners=False
    )
    return turned


def _colour_matrices(saturation: Tensor, hue: Tensor) -> Tensor:
    """(N, 3, 3): RGB with the distance from grey scaled and turned about the grey axis."""
    grey = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / 3**0.5
    angle = (2 * torch.pi * hue).view(-1, 1, 1)
    turned = angle.cos() * (torch.eye(3) - grey) + angle.sin() * cross
    return grey + saturation.view(-1, 1, 1) * turned


def evaluation_views(paths: Sequence[Path], size: int, cache: Path, *, seed: int = 0) -> Bytes:
    """(N, 7, 3, size, size): each picture clean and under the six evaluation distortions."""

    def copies(path: Path) -> Bytes:
        rng = np.random.default_rng([seed, *path.name.encode()])
        picture = rgb(path)
        distorted = [distort(picture, rng) for distort in EVALUATION.values()]
        return np.stack([rounded(shrunk(copy, size)) for copy in (picture, *distorted)])

    settings = {"size": size, "seed": seed}
    return cached_rows(paths, cache, "evaluation", copies, "held-out pictures", **settings)


def clean_views(paths: Sequence[Path], size: int, cache: Path) -> Bytes:
    """(N, 1, 3, size, size): each picture as it is."""

    def as_it_is(path: Path) -> Bytes:
        return rounded(shrunk(rgb(path), size))[None]

    return cached_rows(paths, cache, "clean", as_it_is, size=size)


def _window_matrices(source: int, target: int, start: Tensor, window: Tensor) -> Tensor:
    """``resample_matrix`` for a window of the source axis per picture: (N, target, source)."""
    axes = torch.arange(source), torch.arange(target)
    weights: Tensor = triangle_filter(*axes, start[:, None, None], window[:, None, None])
    return weights


def _blur_matrices(sigma: Tensor, size: int) -> Tensor:
    """Gaussian blur of an axis as one matrix per picture: (N, size, size)."""
    positions = torch.arange(size, dtype=torch.float32)
    distances = (positions[:, None] - positions) / sigma.clamp(min=0.05)[:, None, None]
    weights = torch.exp(-0.5 * distances.square())
    return weights / weights.sum(dim=2, keepdim=True)
