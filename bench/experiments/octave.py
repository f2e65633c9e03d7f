"""``python -m experiments octave``: the whitening matrices of a linear code, computed in minutes.

Per band, M = S + n W + d D + t T, and A holds the columns of M^(-1/2) along which photos differ
most. S is how photos vary, W what distortions and small errors of registration do, D how pictures
of one template differ, and T how the means of templates do, which tells little of a page. The
matrices that ship saw templates of 24 drawn kinds, which the history has at revision 2e9d092.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import torch

from coverlock_bench.measurement import FOLDER
from coverlock_sdk.arrays import Floats, Images, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.errors import PictureError
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.hashing.octave import OCTAVES, features_of, masks
from coverlock_sdk.hashing.views import SIDE
from coverlock_sdk.images.distortions import EVALUATION, Crop, Sharing
from coverlock_sdk.images.folders import HELD_OUT, split
from coverlock_sdk.progress import progress
from coverlock_training.photos import Bytes, rgb, shrunk
from coverlock_training.results import write_results
from experiments.kinds.compare import groups_in

CALIBRATED_ON = 300
"""Held-out photos, at most, that the calibration is fitted on."""

Bands = list[Logits]
"""The features (features,), or those of several pictures (N, features), of each band."""

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class OctaveRecipe:
    """What the matrices are computed from, and what counts how much."""

    photos: int = 2400
    held_out: float = HELD_OUT
    dimensions: tuple[int, ...] = (192, 320, 512)
    noise: float = 4.0
    """Weight of what distortions do."""
    within: float = 1.0
    """Weight of how pictures of one template differ."""
    means: float = 3.0
    """Weight of how templates differ from one another."""
    misplaced: float = 0.001
    """Deviation of errors of registration, in sides."""
    ridge: float = 1e-4
    seed: int = 0


def fit_octave(photos: Path, templates: Path, run: Path, recipe: OctaveRecipe) -> Path:
    """Compute the matrices and write them with their card.

    Each subfolder of ``templates`` has pictures of one template.
    """
    training, held_out = split(photos, recipe.held_out)
    rng = np.random.default_rng(recipe.seed)
    chosen = [training[row] for row in rng.permutation(len(training))[: recipe.photos]]
    moments = [
        _Moments(sum(int(mask.sum()) for mask in masks(band))) for band in range(len(OCTAVES))
    ]
    for path in progress(chosen, "photos"):
        clean, distorted = _views(rgb(path), recipe, rng)
        for moment, one, others in zip(moments, clean, distorted, strict=True):
            moment.add_photo(one, others)
    groups = groups_in(templates)
    for group in progress(list(groups.values()), "templates"):
        for moment, pictures in zip(moments, _stacked(map(_features, group)), strict=True):
            moment.add_template(pictures)
    matrices = [
        _halved(moment.whitening(recipe, dimensions))
        for moment, dimensions in zip(moments, recipe.dimensions, strict=True)
    ]
    if not all(np.isfinite(matrix).all() for matrix in matrices):
        raise PictureError(
            f"{len(chosen)} photos are too few for so many dimensions: give a few hundred"
        )
    card: dict[str, Any] = {
        "recipe": asdict(recipe),
        "bands": [list(octave) for octave in OCTAVES],
        "calibration": asdict(_calibrated(matrices, held_out[:CALIBRATED_ON], recipe)),
        "photos": len(chosen),
        "of_templates": sum(map(len, groups.values())),
    }
    weights = run / "hash.safetensors"
    stored = {f"band-{band}": torch.from_numpy(matrix) for band, matrix in enumerate(matrices)}
    write_results(weights, stored, card)
    return weights


def _halved(matrix: Matrix) -> npt.NDArray[np.float16]:
    """A matrix as it is kept; what half precision cannot hold becomes infinite."""
    with np.errstate(over="ignore"):
        return matrix.astype(np.float16)


class _Moments:
    """Mean outer products, over pictures, that one band is whitened by."""

    def __init__(self, features: int) -> None:
        self.photos, self.noise, self.within, self.means = (_Mean(features) for _ in range(4))

    def add_photo(self, clean: Logits, distorted: Logits) -> None:
        """A photo and its distorted copies, each scaled to the photo: signs do not see scale."""
        self.photos.add(clean[None])
        scale = distorted @ clean / np.maximum(np.square(distorted).sum(axis=1), 1e-12)
        # A picture may meet each distortion, so they add up.
        self.noise.add(distorted * scale[:, None] - clean, count=1)

    def add_template(self, pictures: Logits) -> None:
        """Pictures (N, features) of one template."""
        mean = pictures.mean(axis=0)
        self.means.add(mean[None])
        self.within.add(pictures - mean)

    def whitening(self, recipe: OctaveRecipe, dimensions: int) -> Matrix:
        """A (features, dimensions), the most telling directions first.

        Photos have about unit variance in each dimension.
        """
        signal = self.photos.value
        total = (
            signal
            + recipe.noise * self.noise.value
            + recipe.within * self.within.value
            + recipe.means * self.means.value
        )
        total += recipe.ridge * np.trace(total) / len(total) * np.eye(len(total))
        values, vectors = np.linalg.eigh(total)
        matrix = vectors / np.sqrt(values)
        telling = np.einsum("fd,fg,gd->d", matrix, signal, matrix)
        chosen = np.argsort(-telling)[:dimensions]
        scaled: Matrix = (matrix[:, chosen] / math.sqrt(telling[chosen].mean())).astype(np.float32)
        return scaled


class _Mean:
    """The mean outer product of rows."""

    def __init__(self, features: int) -> None:
        self.total: Floats = np.zeros((features, features))
        self.count = 0

    def add(self, rows: Logits, count: int | None = None) -> None:
        """Take in ``rows`` (N, features), which count as N unless said otherwise."""
        wide = rows.astype(np.float64)
        self.total += wide.T @ wide
        self.count += len(rows) if count is None else count

    @property
    def value(self) -> Floats:
        """The mean so far: zero where nothing was added."""
        return self.total / max(self.count, 1)


def _features(path: Path) -> Bands:
    return features_of(shrunk(rgb(path), SIDE))


def _stacked(pictures: Iterator[Bands]) -> Bands:
    """The features (N, features) of several pictures, band by band."""
    return [np.stack(band) for band in zip(*pictures, strict=True)]


def _views(picture: Bytes, recipe: OctaveRecipe, rng: np.random.Generator) -> tuple[Bands, Bands]:
    """The features of a photo, and those (N, features) of what distortions make of it."""
    copies = (features_of(view, frame) for view, frame in _distorted(picture, recipe, rng))
    return features_of(shrunk(picture, SIDE)), _stacked(copies)


def _distorted(
    picture: Bytes, recipe: OctaveRecipe, rng: np.random.Generator
) -> Iterator[tuple[Images, Frame]]:
    """A photo under each distortion, and nearly the frame that it then shows."""
    for name in ("noise", "brightness", "jpeg", "contrast"):
        yield shrunk(EVALUATION[name](picture, rng), SIDE), WHOLE
    yield shrunk(Sharing(0.5, 60)(picture, rng), SIDE), WHOLE
    for crop in (Crop(0.8), Crop(0.8, anywhere=True)):
        part, frame = cropped(picture, crop, rng)
        off = rng.normal(0, recipe.misplaced, 3)
        yield shrunk(part, SIDE), Frame(frame.side + off[0], frame.x + off[1], frame.y + off[2])


def cropped(picture: Bytes, crop: Crop, rng: np.random.Generator) -> tuple[Bytes, Frame]:
    """A crop of a picture, and which part of its frame it shows."""
    height, width = picture.shape[:2]
    # A picture whose values are its own coordinates tells where the crop comes from.
    places = np.stack(np.broadcast_arrays(*np.ogrid[:height, :width]), axis=-1)
    part: npt.NDArray[Any] = crop(places, rng)
    (top, left), (low, right) = part[0, 0].tolist(), part[-1, -1].tolist()
    frame = Frame(
        side=(low + 1 - top) / height,
        x=(left + right + 1) / 2 / width,
        y=(top + low + 1) / 2 / height,
    )
    return picture[top : low + 1, left : right + 1], frame


def _calibrated(
    matrices: Sequence[npt.NDArray[np.float16]], photos: Sequence[Path], recipe: OctaveRecipe
) -> Calibration:
    """How far logits can be trusted after one distortion, on photos that were held out."""
    rng = np.random.default_rng(recipe.seed + 1)
    wide = [matrix.astype(np.float32) for matrix in matrices]

    def logits(features: Bands) -> Logits:
        return np.concatenate([part @ matrix for part, matrix in zip(features, wide, strict=True)])

    clean, seen = [], []
    for path in progress(photos, "calibration"):
        picture = rgb(path)
        views = list(_distorted(picture, recipe, rng))
        view, frame = views[int(rng.integers(len(views)))]
        clean.append(logits(features_of(shrunk(picture, SIDE))))
        seen.append(logits(features_of(view, frame)))
    return Calibration.fit(np.stack(seen), np.stack(clean) > 0)


@click.command("octave")
@click.argument("photos", type=FOLDER)
@click.option(
    "--templates",
    type=FOLDER,
    required=True,
    help="Folder with subfolders of pictures of one template, as 'experiments draw' makes them.",
)
@click.option("--run", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--seed", default=0, show_default=True)
def octave_command(photos: Path, templates: Path, run: Path, seed: int) -> None:
    """Compute the matrices of a linear code from PHOTOS, and write them to a run folder."""
    weights = fit_octave(photos, templates, run, OctaveRecipe(seed=seed))
    click.echo(f"wrote {weights} and {weights.with_suffix('.json')}")
