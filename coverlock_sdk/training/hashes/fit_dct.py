"""Fit the `dct` hash: ``python -m coverlock_sdk.training.hashes.fit_dct PHOTOS``.

Writes the whitening, the fixed projection and the calibration that ship with the package.
Nine tenths of the photos are used for whitening, the rest for calibration and the figures in
the model card.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images
from coverlock_sdk.hashing import dct
from coverlock_sdk.hashing.dct_features import CHROMA_BAND, LUMA_BAND, SIDE, dct_features
from coverlock_sdk.hashing.projection import orthogonal_projection
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION, Distortion, draw_training_distortion
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.figures import ACCEPTED, pair_agreement
from coverlock_sdk.training.photos import HELD_OUT, split

SHRINKAGE = 0.5
"""Share of the mean variance added to every direction before whitening.

Full whitening (0) makes codes of different pictures most independent but amplifies the
directions that distortions move most; chosen on the held-out photos.
"""


def fit(photos: Path, seed: int) -> tuple[dict[str, npt.NDArray[np.float32]], dict[str, object]]:
    """The hash's arrays, and its card: settings, calibration, figures on held-out photos."""
    fitted, held_out = split(photos, HELD_OUT)
    features = dct_features(_views(fitted, None, seed, "whitening"))
    mean = features.mean(axis=0)
    arrays = {
        "mean": mean,
        "whitening": _whitening(features - mean),
        "projection": orthogonal_projection(features.shape[1]),
    }
    matrix = arrays["whitening"] @ arrays["projection"]

    def logits(distortion: Distortion | None, label: str) -> npt.NDArray[np.float32]:
        return (dct_features(_views(held_out, distortion, seed, label)) - mean) @ matrix

    code = logits(None, "held-out") > 0
    calibration = Calibration.fit(logits(_any_training_distortion, "calibration"), code)
    errors = {
        name: float(((logits(distortion, name) > 0) != code).mean())
        for name, distortion in EVALUATION.items()
    }
    agreement = pair_agreement(code)
    card = {
        "name": "dct",
        "settings": {"luma_band": LUMA_BAND, "chroma_band": CHROMA_BAND, "shrinkage": SHRINKAGE},
        "photos": {"whitening": len(fitted), "held_out": len(held_out)},
        "seed": seed,
        "calibration": asdict(calibration),
        "held_out_bit_error": {**errors, "mean": float(np.mean(list(errors.values())))},
        "held_out_pair_agreement": {
            "mean": float(agreement.mean()),
            "std": float(agreement.std()),
            "share_at_least_167_of_256": float((agreement >= ACCEPTED / 256).mean()),
        },
    }
    return arrays, card


def _views(photos: list[Path], distortion: Distortion | None, seed: int, label: str) -> Images:
    rng = np.random.default_rng(seed)
    views = []
    for photo in progress(photos, label):
        picture = read(photo)
        if distortion is not None:
            picture = read(distortion(picture.to_bytes(), rng))
        views.append(picture.view((SIDE, SIDE)))
    return np.stack(views)


def _any_training_distortion(
    picture: npt.NDArray[np.uint8], rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    return draw_training_distortion(rng)(picture, rng)


def _whitening(centred: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The symmetric inverse square root of the covariance, shrunk towards the identity."""
    variances, directions = np.linalg.eigh(np.cov(centred.T.astype(np.float64)))
    scales = (variances + SHRINKAGE * variances.mean()) ** -0.5
    return ((directions * scales) @ directions.T).astype(np.float32)


@click.command()
@click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(dct.__file__).parent / "weights",
)
@click.option("--seed", default=0, show_default=True)
def main(photos: Path, out: Path, seed: int) -> None:
    """Fit the `dct` hash on a folder of PHOTOS and write its weights and card."""
    from safetensors.numpy import save_file

    arrays, card = fit(photos, seed)
    out.mkdir(parents=True, exist_ok=True)
    save_file(arrays, out / "dct.safetensors")
    (out / "dct.json").write_text(json.dumps(card, indent=2) + "\n")
    click.echo(json.dumps(card, indent=2))


if __name__ == "__main__":
    main()
