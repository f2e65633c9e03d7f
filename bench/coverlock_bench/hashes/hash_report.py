"""Measures a hash: how distortions change its bits, and how much different pictures agree."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.hashes.codes import (
    CHANGES,
    LENGTHS,
    Codes,
    Counts,
    FramedView,
    agreement,
    codes_of,
    every_pair,
    views_of,
)
from coverlock_bench.hashes.weights import bytes_of, weights_of
from coverlock_bench.photos import load_squares
from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk import CoverLockError, ImageHash, load_hash
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.lock import MOST_BITS
from coverlock_sdk.locking.statistics import binomial_tail, hard_threshold
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.progress import progress

SIDE = 512
"""Side of the squares that photos are cut to, in pixels."""

THUMBNAIL = (8, 8)
TIMINGS = 100


def settings(photos: list[Path], seed: int) -> dict[str, Any]:
    """The settings of a report, for its result file."""
    return {
        "photos": len(photos),
        "seed": seed,
        "fpr": DEFAULT_FPR,
        "thresholds": {str(bits): hard_threshold(bits, DEFAULT_FPR) for bits in LENGTHS},
        "distortions": {name: repr(change) for name, change in CHANGES.items()},
        "similar": "nearest by cosine of centred 8 x 8 colour thumbnails",
    }


def hash_report(names: tuple[str, ...], photos: list[Path], seed: int) -> dict[str, Any]:
    """The figures of the named hashes, or of all that work on this machine."""
    if len(photos) < 2:
        raise PictureError("a hash report compares pictures: give a folder with at least two")
    hashes, left_out = _load(names, photos[0])
    similar = similar_pairs(photos)
    speed = _milliseconds(hashes, photos)
    figures = {}
    for name, image_hash in hashes.items():
        codes = distorted_codes(image_hash, photos, seed)
        figures[name] = {
            **code_figures(codes, similar),
            "dimensions": image_hash.dimensions,
            "bytes": bytes_of(image_hash),
            "weights": weights_of(image_hash),
            "milliseconds": speed[name],
        }
    return {"hashes": figures, "fair_coins": fair_coins(), "left_out": left_out}


def _load(names: tuple[str, ...], photo: Path) -> tuple[dict[str, ImageHash], dict[str, str]]:
    """The requested hashes, or all installed ones that work, and why the others do not."""
    if names:
        return {name: load_hash(name) for name in names}, {}
    hashes: dict[str, ImageHash] = {}
    left_out = {}
    for name in plugin_manager().names("hash"):
        try:
            image_hash = load_hash(name)
            codes_of(image_hash, [FramedView(_square(photo))])
        except CoverLockError as error:
            left_out[name] = str(error)
        else:
            hashes[name] = image_hash
    return hashes, left_out


def distorted_codes(image_hash: ImageHash, photos: list[Path], seed: int) -> Codes:
    """The codes (N, 1 + distortions, 256) of photos as they are and under every distortion.

    Every hash sees the same distorted pictures.
    """
    numbered = progress(list(enumerate(photos)), image_hash.name)
    return np.stack(
        [codes_of(image_hash, views_of(_square(photo), [seed, index])) for index, photo in numbered]
    )


def _square(photo: Path) -> Any:
    return load_squares([photo], SIDE)[0]


def code_figures(codes: Codes, similar: Counts) -> dict[str, Any]:
    """The figures of codes (N, 1 + distortions, 256), and of ``similar`` pairs (M, 2) of them."""
    clean = codes[:, 0]
    changed = (codes[:, 1:] != clean[:, None]).mean(axis=(0, 2))
    errors = dict(zip(CHANGES, map(float, changed), strict=True))
    return {
        "bit_error": errors,
        "bit_error_mean_of_six": float(np.mean([errors[name] for name in EVALUATION])),
        "different": agreement(clean, every_pair(len(clean))),
        "similar": agreement(clean, similar),
    }


def similar_pairs(photos: list[Path]) -> Counts:
    """Each photo with its most similar one, (M, 2), every pair once.

    Similarity is the cosine of 8 x 8 colour thumbnails, less the mean thumbnail of all photos: the
    same layout of light and colour, independent of any hash.
    """
    thumbnails = np.stack([read(photo).view(THUMBNAIL).ravel() for photo in photos])
    centred = thumbnails - thumbnails.mean(axis=0)
    directions = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)
    cosine = directions @ directions.T
    np.fill_diagonal(cosine, -np.inf)
    pairs = np.stack([np.arange(len(photos)), cosine.argmax(axis=1)], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def fair_coins() -> dict[str, Any]:
    """The figures of independent fair bits, which are the best possible."""
    return {
        "mean": 0.5,
        "std": 0.5 / MOST_BITS**0.5,
        "accepted": {
            str(bits): float(binomial_tail(bits)[hard_threshold(bits, DEFAULT_FPR)])
            for bits in LENGTHS
        },
    }


def _milliseconds(hashes: Mapping[str, ImageHash], photos: list[Path]) -> dict[str, float]:
    """The median time for one 8-bit picture, resampling included."""
    view = FramedView(read(photos[0]).to_bytes())
    works = [partial(codes_of, image_hash, [view]) for image_hash in hashes.values()]
    medians = 1000 * np.median(seconds_in_turns(works, TIMINGS), axis=0)
    return dict(zip(hashes, map(float, medians), strict=True))
