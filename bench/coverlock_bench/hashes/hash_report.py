"""What a hash is worth: what distortions do to its bits, and how far pictures differ in them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.hashes.collision_report import collision_report
from coverlock_bench.hashes.kind_report import kind_report
from coverlock_bench.hashes.linearity import linearity
from coverlock_bench.kept_rows import kept_rows
from coverlock_bench.ledger import digest
from coverlock_bench.timing import seconds_in_turns
from coverlock_bench.trial import distort
from coverlock_sdk import CoverLockError, ImageHash, load_hash
from coverlock_sdk.arrays import Logits
from coverlock_sdk.errors import PictureError
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION, HARDER, Picture
from coverlock_sdk.images.picture import stacked_views
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import bit_selection
from coverlock_sdk.locking.statistics import binomial_tail, hard_threshold
from coverlock_sdk.plugin_manager import plugin_manager

LENGTHS = (30, 32, 64, 100, 256)
"""Payload lengths of the watermarks there are; each locks with that many of the 256 bits."""

THUMBNAIL = (8, 8)
TIMINGS = 100
REFERENCE = "dct"
CACHE = Path("runs/hashed")

DISTORTIONS = {**EVALUATION, **HARDER}

Codes = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


def settings(photos: list[Path], seed: int) -> dict[str, Any]:
    """What a report was made with, for its result file."""
    return {
        "photos": len(photos),
        "seed": seed,
        "fpr": DEFAULT_FPR,
        "thresholds": {str(bits): hard_threshold(bits, DEFAULT_FPR) for bits in LENGTHS},
        "distortions": {name: repr(distortion) for name, distortion in DISTORTIONS.items()},
        "similar": "nearest by cosine of centred 8 x 8 colour thumbnails",
    }


def hash_report(
    names: tuple[str, ...],
    photos: list[Path],
    seed: int,
    kinds: int = 0,
    collisions: int = 0,
    curve: bool = False,
) -> dict[str, Any]:
    """The figures of each hash named, or of all that work on this machine where none is.

    With ``kinds``, so many drawn pictures of each kind are compared too; with ``collisions``, so
    many photos are attacked, and with a ``curve`` at several budgets.
    """
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
            "folders": _by_folder(codes[:, 0], photos),
            "linearity": linearity(image_hash, photos),
            **_size(image_hash),
            **speed[name],
        }
    report = {"hashes": figures, "fair_coins": fair_coins(len(photos)), "left_out": left_out}
    if kinds:
        report["kinds"] = kind_report(hashes, photos, kinds, seed)
    if collisions:
        report["collisions"] = collision_report(hashes, photos, collisions, seed, curve)
    return report


def _load(names: tuple[str, ...], photo: Path) -> tuple[dict[str, ImageHash], dict[str, str]]:
    """The hashes asked for; of all installed ones those that work, and why the others do not."""
    if names:
        return {name: load_hash(name) for name in names}, {}
    hashes: dict[str, ImageHash] = {}
    left_out = {}
    for name in plugin_manager().names("hash"):
        try:
            image_hash = load_hash(name)
            _logits(image_hash, [photo])
        except CoverLockError as error:
            left_out[name] = str(error)
        else:
            hashes[name] = image_hash
    return hashes, left_out


def distorted_codes(image_hash: ImageHash, photos: list[Path], seed: int) -> Codes:
    """The codes (N, 1 + distortions, 256) of photos as they are and under every distortion.

    Every hash sees the same distorted pictures. What was hashed is kept, so that an interrupted
    run goes on from there; the first photo tells whether hash and distortions are still the same.
    """
    first = _logits(image_hash, _distorted(photos[0], [seed, 0]))
    name = digest(first, seed, [str(photo.resolve()) for photo in photos])

    def code(index: int) -> Any:
        logits = _logits(image_hash, _distorted(photos[index], [seed, index]))
        return np.packbits(logits > 0, axis=1)

    path = CACHE / f"{image_hash.name}-{name}.npy"
    packed = kept_rows(path, range(len(photos)), code, image_hash.name)
    return np.unpackbits(packed, axis=2).astype(np.bool_)


def _distorted(photo: Path, seed: list[int]) -> list[Picture]:
    """The photo as it is, and under every distortion."""
    clean = read(photo).to_bytes()
    return [clean, *distort(clean, DISTORTIONS, np.random.default_rng(seed)).values()]


def _logits(image_hash: ImageHash, pictures: Sequence[Any]) -> Logits:
    """The logits of pictures of any kind and size."""
    return image_hash.logits(stacked_views([read(p) for p in pictures], image_hash.input_size))


def code_figures(codes: Codes, similar: Counts) -> dict[str, Any]:
    """The figures of codes (N, 1 + distortions, 256), and of ``similar`` pairs (M, 2) of them."""
    clean = codes[:, 0]
    changed = (codes[:, 1:] != clean[:, None]).mean(axis=(0, 2))
    errors = dict(zip(DISTORTIONS, map(float, changed), strict=True))
    different = np.stack(np.triu_indices(len(clean), 1), axis=1)
    return {
        "bit_error": errors,
        "bit_error_mean_of_six": float(np.mean([errors[name] for name in EVALUATION])),
        "imbalance": float(np.abs(clean.mean(axis=0) - 0.5).mean()),
        **_correlation(clean),
        "different": _agreement(clean, different),
        "similar": _agreement(clean, similar),
    }


def _by_folder(codes: Codes, photos: list[Path]) -> dict[str, Any]:
    """The agreement of different photos within each folder that has at least two."""
    members: dict[str, list[int]] = {}
    for row, photo in enumerate(photos):
        members.setdefault(photo.parent.name, []).append(row)
    return {
        folder: _agreement(codes[rows], np.stack(np.triu_indices(len(rows), 1), axis=1))
        for folder, rows in members.items()
        if len(rows) > 1
    }


def _correlation(codes: Codes) -> dict[str, Any]:
    """Mean absolute correlation of two bits over pictures; a bit that never changes has none."""
    varying = codes[:, codes.any(axis=0) & ~codes.all(axis=0)]
    correlation = np.atleast_2d(np.corrcoef(varying.astype(np.float64), rowvar=False))
    pairs = np.triu_indices(len(correlation), 1)
    return {
        "correlation": float(np.abs(correlation[pairs]).mean()),
        "constant_bits": codes.shape[1] - varying.shape[1],
    }


def _agreement(codes: Codes, pairs: Counts) -> dict[str, Any]:
    """How many bits the two pictures of a pair share, and how often enough to be accepted."""
    accepted = {}
    for bits in LENGTHS:
        matches = _matches(codes[:, bit_selection(None, CODE_BITS, bits)], pairs)
        accepted[str(bits)] = float((matches >= hard_threshold(bits, DEFAULT_FPR)).mean())
    matches = _matches(codes, pairs)
    return {
        "pairs": len(pairs),
        "mean": float(matches.mean() / CODE_BITS),
        "std": float(matches.std() / CODE_BITS),
        "accepted": accepted,
        "match_histogram": np.bincount(matches, minlength=CODE_BITS + 1).tolist(),
    }


def _matches(codes: Codes, pairs: Counts) -> Counts:
    signs = np.where(codes, 1, -1).astype(np.float32)
    equal = (codes.shape[1] + signs @ signs.T) / 2
    return equal[pairs[:, 0], pairs[:, 1]].astype(np.int64)


def similar_pairs(photos: list[Path]) -> Counts:
    """Each photo with the one most like it, (M, 2), every pair once.

    Alike are photos whose 8 x 8 colour thumbnails, less the mean thumbnail of all, have the
    largest cosine: the same layout of light and colour, whatever any hash says of it.
    """
    thumbnails = np.stack([read(photo).view(THUMBNAIL).ravel() for photo in photos])
    centred = thumbnails - thumbnails.mean(axis=0)
    directions = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)
    cosine = directions @ directions.T
    np.fill_diagonal(cosine, -np.inf)
    pairs = np.stack([np.arange(len(photos)), cosine.argmax(axis=1)], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def fair_coins(pictures: int) -> dict[str, Any]:
    """What independent fair bits would show on as many pictures: the best there can be."""
    return {
        "imbalance": float(np.sqrt(1 / (2 * np.pi * pictures))),
        "correlation": float(np.sqrt(2 / (np.pi * pictures))),
        "mean": 0.5,
        "std": 0.5 / CODE_BITS**0.5,
        "accepted": {
            str(bits): float(binomial_tail(bits)[hard_threshold(bits, DEFAULT_FPR)])
            for bits in LENGTHS
        },
    }


def _milliseconds(hashes: Mapping[str, ImageHash], photos: list[Path]) -> dict[str, dict[str, Any]]:
    """The median time for one 8-bit picture, resampling included, and its ratio to `dct`."""
    timed = {REFERENCE: load_hash(REFERENCE), **hashes}
    picture = read(photos[0]).to_bytes()
    works = [partial(_logits, image_hash, [picture]) for image_hash in timed.values()]
    seconds = seconds_in_turns(works, TIMINGS)
    medians = 1000 * np.median(seconds, axis=0)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    return {
        name: {"milliseconds": float(median), f"times_{REFERENCE}": float(ratio)}
        for name, median, ratio in zip(timed, medians, ratios, strict=True)
    }


def _size(image_hash: ImageHash) -> dict[str, int | None]:
    """Parameters and bytes of the weight files; None where the hash has none that are known.

    Weights lie in the ``folder`` of the hash, or in ``weights`` beside its module, by its name.
    """
    from safetensors import safe_open

    files = _weight_files(image_hash)
    if not files:
        return {"parameters": None, "bytes": None}
    parameters = 0
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            slices = map(tensors.get_slice, tensors.keys())
            parameters += sum(math.prod(tensor.get_shape()) for tensor in slices)
    return {"parameters": parameters, "bytes": sum(file.stat().st_size for file in files)}


def _weight_files(image_hash: ImageHash) -> list[Path]:
    folder = image_hash.folder
    if folder is not None:
        return sorted(Path(folder).glob("*.safetensors"))
    beside = Path(inspect.getfile(type(image_hash))).parent
    file = beside / "weights" / f"{image_hash.name}.safetensors"
    return [file] if file.exists() else []
