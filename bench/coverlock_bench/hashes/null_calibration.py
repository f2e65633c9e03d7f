"""Are the p-values of unmarked pictures what they claim, with the message held fixed? (appendix F)

Random messages would prove nothing: with them, matches are fair coins whatever the networks do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.intervals import percentiles, rate
from coverlock_bench.kept_rows import kept_rows
from coverlock_bench.ledger import digest, fingerprint
from coverlock_bench.settings import named_watermark
from coverlock_sdk import codeword, load_hash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.keyed_codes import PlainMap
from coverlock_sdk.locking.lock_format import LockFormat, Reading
from coverlock_sdk.locking.statistics import binomial_tail, soft_tail, soft_weights
from coverlock_sdk.locking.verdict import RULES, Rule
from coverlock_sdk.plugin_calls import Networks

LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
BOOTSTRAPS = 1000
CACHE = Path("runs/decoded")

FloatArray = npt.NDArray[np.float64]


def null_calibration(
    watermark: str,
    hashes: Sequence[str],
    photos: list[Path],
    messages: int,
    seed: int,
    quarters: bool = False,
) -> dict[str, Any]:
    """Match counts and p-values of unmarked photos against fixed messages, vanilla and locked.

    With ``quarters`` the four of each photo are pictures of their own beside it.
    """
    system = named_watermark(watermark)
    networks = Networks(system, None)
    same = fingerprint(system)
    payload_logits = _kept_logits(system.name, same, networks, networks.decoded, photos, quarters)
    vanilla = LockFormat(system.bits, system.calibration, None)
    arms = {
        "vanilla": vanilla.readings(payload_logits, payload_logits, PlainMap.of(None, vanilla.bits))
    }
    for image_hash in map(load_hash, hashes):
        networks = Networks(system, image_hash)
        same = digest(system.native_size, networks.hashed(networks.views([read(photos[0])])))
        hash_logits = _kept_logits(
            image_hash.name, same, networks, networks.hashed, photos, quarters
        )
        locked = LockFormat(system.bits, system.calibration, image_hash.calibration)
        public = PlainMap.of(None, locked.bits)
        arms[f"locked, {image_hash.name}"] = locked.readings(payload_logits, hash_logits, public)
    fixed = np.stack(
        [np.zeros(system.bits, dtype=np.uint8)]
        + [codeword(f"fixed message {k}", None, system.bits) for k in range(1, messages)]
    )
    return {name: _compared(readings, fixed, len(photos), seed) for name, readings in arms.items()}


def _kept_logits(
    name: str,
    same: str,
    networks: Networks,
    answer: Callable[[list[Images]], Logits],
    photos: list[Path],
    quarters: bool,
) -> Logits:
    """What a network answers to each of ``photos``, and to its quarters: (N, bits)."""

    def row(photo: Path) -> Logits:
        picture = read(photo)
        return answer(networks.views([picture, *(_quarters(picture) if quarters else ())]))

    names = "\n".join(str(photo.resolve()) for photo in photos)
    path = CACHE / f"{name}-{digest(same, names, quarters)}.npy"
    return np.concatenate(kept_rows(path, photos, row, name))


def _quarters(picture: Picture) -> list[Picture]:
    """The four quarters of a picture."""
    height, width = (length // 2 for length in picture.size)
    rows, columns = ((slice(0, length), slice(length, None)) for length in (height, width))
    return [Picture(picture.pixels[row, column]) for row in rows for column in columns]


def _compared(
    readings: list[Reading], messages: npt.NDArray[np.uint8], photos: int, seed: int
) -> dict[str, Any]:
    """Match counts and p-values of pictures against each message; those of one photo adjoin."""
    bits = messages.shape[1]
    matches = np.stack([(reading.bits == messages) for reading in readings], axis=1)
    counts = matches.sum(axis=2)  # (messages, pictures)
    ratios = _variance_ratios(counts, bits)
    rng = np.random.default_rng(seed)
    each = np.arange(len(readings)).reshape(photos, -1)
    resamples = each[rng.integers(photos, size=(BOOTSTRAPS, photos))].reshape(BOOTSTRAPS, -1)
    drawn = np.array([_variance_ratios(counts[:, rows], bits).mean() for rows in resamples])
    low, high = percentiles(drawn)
    return {
        "photos": photos,
        "pictures": len(readings),
        "messages": len(messages),
        "mean_match_rate": float(counts.mean() / bits),
        "variance_ratio": {
            "mean": float(ratios.mean()),
            "low": low,
            "high": high,
            "min": float(ratios.min()),
            "max": float(ratios.max()),
            "all_zero_message": float(ratios[0]),
        },
        "exceedance": {
            rule: _exceedance(_p_values(matches, readings, rule), rule, bits, photos, resamples)
            for rule in RULES
        },
        "match_histogram": np.bincount(counts.ravel(), minlength=bits + 1).tolist(),
    }


def _variance_ratios(counts: npt.NDArray[np.int64], bits: int) -> FloatArray:
    """Of each message: the variance of its matches over pictures, relative to the binomial's."""
    ratios: FloatArray = counts.var(axis=1, ddof=1) / (bits / 4)
    return ratios


def _p_values(matches: npt.NDArray[np.bool_], readings: list[Reading], rule: Rule) -> FloatArray:
    """p-values (messages, pictures)."""
    if rule == "hard":
        return binomial_tail(matches.shape[2])[matches.sum(axis=2)]
    columns = []
    for picture, reading in enumerate(readings):
        weights = soft_weights(reading.confidence)
        columns.append(soft_tail(weights)[matches[:, picture] @ weights])
    return np.stack(columns, axis=1)


def _exceedance(
    p_values: FloatArray, rule: Rule, bits: int, photos: int, resamples: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """How often p <= level, with an interval from resampling photos (what is of one goes together).

    No event has no spread: then the upper end is that of none among so many independent photos.
    """
    report = {}
    for level in LEVELS:
        per_picture = (p_values <= level).mean(axis=0)
        low, high = percentiles(per_picture[resamples].mean(axis=1))
        if not per_picture.any():
            high = rate(0, photos)["high"]
        tail = binomial_tail(bits)
        expected = float(tail[tail <= level].max()) if rule == "hard" else level
        report[f"{level:g}"] = {
            "expected": expected,
            "observed": float(per_picture.mean()),
            "low": low,
            "high": high,
            "expected_inside_interval": low <= expected <= high,
        }
    return report
