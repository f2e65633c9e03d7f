"""How the whitening matrices of ``octave`` are computed: minutes, and nothing is trained.

Per band, M = S + n W + t T, and A holds the columns of M^(-1/2) along which photos differ most for
what distortions do to them. S is how photos vary, W what distortions and small errors of
registration do, T how the means of drawn templates vary, which tells pages of one template apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Floats, Images, Logits
from coverlock_sdk.hashing.frames import WHOLE, Frame
from coverlock_sdk.hashing.octave import OCTAVES, SIDE, features_of
from coverlock_sdk.images.distortions import EVALUATION, Crop, Distortion, Sharing
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.progress import progress
from coverlock_sdk.training.kinds.collection import TOGETHER, draw_crowd
from coverlock_sdk.training.photos import Bytes, rgb, shrunk, split
from coverlock_sdk.training.results import write_results


@dataclass(frozen=True)
class OctaveRecipe:
    """What the matrices are computed from, and what counts how much."""

    photos: int = 2400
    held_out: float = 0.1
    templates: int = 6
    """Drawn templates of each kind, eight pictures of each."""
    dimensions: tuple[int, ...] = (192, 320, 512)
    noise: float = 4.0
    """Weight of what distortions do."""
    drawn: float = 1.0
    """Weight of how drawn pictures of one template differ."""
    means: float = 3.0
    """Weight of how templates differ from one another, which tells little."""
    misplaced: float = 0.001
    """Deviation of errors of registration, in sides."""
    ridge: float = 1e-4
    seed: int = 0


Features = list[Logits]
"""Per band: (features,)."""


def fit_octave(photos: Path, run: Path, recipe: OctaveRecipe | None = None) -> Path:
    """Compute the matrices from a folder of photos and write them with their card."""
    recipe = recipe or OctaveRecipe()
    training, validation = split(photos, recipe.held_out)
    rng = np.random.default_rng(recipe.seed)
    chosen = [training[row] for row in rng.permutation(len(training))[: recipe.photos]]
    moments = [_Moments() for _ in OCTAVES]
    for path in progress(chosen, "photos"):
        for clean, distorted in _views(rgb(path), recipe, rng):
            for moment, a, b in zip(moments, clean, distorted, strict=True):
                moment.add(a, b)
    drawn = draw_crowd(run / "drawn", recipe.templates, training)
    groups = [files[start : start + TOGETHER] for files in drawn.values()
              for start in range(0, len(files), TOGETHER)]
    for group in progress(groups, "drawn pictures"):
        features = [features_of(shrunk(rgb(path), SIDE)) for path in group]
        for band, moment in enumerate(moments):
            moment.add_template(np.stack([each[band] for each in features]))
    matrices = [
        moment.whitening(recipe, dimensions)
        for moment, dimensions in zip(moments, recipe.dimensions, strict=True)
    ]
    stored = {f"band-{band}": matrix.astype(np.float16) for band, matrix in enumerate(matrices)}
    calibration = _calibrated(stored, validation, recipe)
    card: dict[str, Any] = {
        "recipe": asdict(recipe),
        "bands": [list(octave) for octave in OCTAVES],
        "calibration": asdict(calibration),
        "photos": len(chosen),
        "drawn": sum(map(len, drawn.values())),
    }
    import torch

    tensors = {name: torch.from_numpy(value) for name, value in stored.items()}
    write_results(run / "hash.safetensors", tensors, card)
    return run / "hash.safetensors"


class _Moments:
    """Sums over pictures of what one band is whitened by."""

    def __init__(self) -> None:
        self.photos: Any = 0.0
        self.noise: Any = 0.0
        self.within: Any = 0.0
        self.means: Any = 0.0
        self.counts = {"photos": 0, "noise": 0, "within": 0, "means": 0}

    def add(self, clean: Logits, distorted: Sequence[Logits]) -> None:
        """A photo and its distorted copies, each scaled to the photo: signs do not see scale."""
        self._sum("photos", clean[None])
        rows = np.stack(distorted)
        scale = rows @ clean / np.maximum(np.square(rows).sum(axis=1), 1e-12)
        # One distortion counts as much as another: their sum is what a picture may meet.
        self.noise = self.noise + _gram(rows * scale[:, None] - clean)
        self.counts["noise"] += 1

    def add_template(self, pictures: Logits) -> None:
        """Drawn pictures (N, features) of one template."""
        mean = pictures.mean(axis=0)
        self._sum("means", mean[None])
        self._sum("within", pictures - mean)

    def _sum(self, name: str, rows: Logits) -> None:
        setattr(self, name, getattr(self, name) + _gram(rows))
        self.counts[name] += len(rows)

    def whitening(self, recipe: OctaveRecipe, dimensions: int) -> npt.NDArray[np.float32]:
        """A (features, dimensions): unit variance in M, the most telling directions first."""
        signal = self.photos / self.counts["photos"]
        total = signal + recipe.noise * self.noise / self.counts["noise"]
        total = total + recipe.drawn * self.within / max(self.counts["within"], 1)
        total = total + recipe.means * self.means / max(self.counts["means"], 1)
        total = total + recipe.ridge * np.trace(total) / len(total) * np.eye(len(total))
        values, vectors = np.linalg.eigh(total)
        matrix = vectors / np.sqrt(values)
        telling = np.einsum("fd,fg,gd->d", matrix, signal, matrix)
        chosen = matrix[:, np.argsort(-telling)[:dimensions]]
        # Photos have about unit variance in each dimension, so that logits can be read as such.
        return (chosen / math.sqrt(float(np.sort(telling)[-dimensions:].mean()))).astype(np.float32)


def _gram(rows: Logits) -> Floats:
    wide = rows.astype(np.float64)
    return wide.T @ wide


def _views(
    picture: Bytes, recipe: OctaveRecipe, rng: np.random.Generator
) -> Iterator[tuple[Features, list[list[Logits]]]]:
    """The features of a photo, and of what distortions make of it, nearly in the right frame."""
    clean = features_of(shrunk(picture, SIDE))
    copies = [features_of(view, frame) for view, frame in _distorted(picture, recipe, rng)]
    yield clean, [[copy[band] for copy in copies] for band in range(len(OCTAVES))]


def _distorted(
    picture: Bytes, recipe: OctaveRecipe, rng: np.random.Generator
) -> Iterator[tuple[Images, Frame]]:
    for name in ("noise", "brightness", "jpeg", "contrast"):
        yield shrunk(EVALUATION[name](picture, rng), SIDE), WHOLE
    yield shrunk(Sharing(0.5, 60)(picture, rng), SIDE), WHOLE
    for crop in (Crop(0.8), Crop(0.8, anywhere=True)):
        part, frame = cropped(picture, crop, rng)
        off = rng.normal(0, recipe.misplaced, 3)
        moved = Frame(frame.side + off[0], frame.x + off[1], frame.y + off[2])
        yield shrunk(part, SIDE), moved


def cropped(picture: Bytes, crop: Crop, rng: np.random.Generator) -> tuple[Bytes, Frame]:
    """A crop of a picture, and which part of its frame it shows."""
    height, width = picture.shape[:2]
    # A picture whose values are its own coordinates tells where the crop comes from.
    places = np.stack(np.broadcast_arrays(*np.ogrid[:height, :width]), axis=-1)
    part = crop(places, rng)  # type: ignore[arg-type]
    (top, left), (low, right) = part[0, 0], part[-1, -1]
    frame = Frame(
        side=(low + 1 - top) / height,
        x=(left + right + 1) / 2 / width,
        y=(top + low + 1) / 2 / height,
    )
    return picture[top : low + 1, left : right + 1], frame


def _calibrated(
    stored: dict[str, npt.NDArray[np.float16]], photos: Sequence[Path], recipe: OctaveRecipe
) -> Calibration:
    """How far logits can be trusted after one distortion, on photos that were held out."""
    rng = np.random.default_rng(recipe.seed + 1)
    matrices = [stored[f"band-{band}"].astype(np.float32) for band in range(len(OCTAVES))]

    def logits(features: Features) -> Logits:
        return np.concatenate([f @ m for f, m in zip(features, matrices, strict=True)])

    clean_bits, seen = [], []
    for path in progress(photos[:300], "calibration"):
        picture = rgb(path)
        clean = logits(features_of(shrunk(picture, SIDE)))
        views = list(_distorted(picture, recipe, rng))
        view, frame = views[int(rng.integers(len(views)))]
        clean_bits.append(clean > 0)
        seen.append(logits(features_of(view, frame)))
    return Calibration.fit(np.stack(seen), np.stack(clean_bits))
