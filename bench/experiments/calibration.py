"""``python -m experiments calibration``: are p-values of unmarked pictures what they claim?

Messages are held fixed, as in appendix F of the paper. Random messages would prove nothing: with
them, matches are fair coins whatever the networks do.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.intervals import percentiles, rate
from coverlock_bench.ledger import digest, fingerprint
from coverlock_bench.measurement import (
    Measured,
    count_option,
    hash_option,
    images_option,
    measurement,
    number_option,
    seed_option,
    watermarks_option,
)
from coverlock_bench.photos import Picture8, find_photos
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import Row, Table, below, nested, shown
from coverlock_sdk import CoverLock, Key, NoDefense
from coverlock_sdk.arrays import Bits, Floats
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.keys import codeword
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from experiments.kept_rows import kept_rows

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
BOOTSTRAPS = 1000
CACHE = Path("runs/nulls")


def null_calibration(
    watermark: str, hash: str, photos: list[Path], messages: int, seed: int
) -> dict[str, Any]:
    """Match counts and p-values of unmarked photos against fixed messages, by kind of lock.

    P-values are those of verification, with every salt and every part of the picture that it tries.
    """
    system = named_watermark(watermark)
    key = Key(np.random.default_rng(seed).bytes(32), id="calibration")
    arms = {
        "no lock": NoDefense().protect(system),
        "locked without a key": CoverLock(hash).protect(system),
        "locked": CoverLock(hash, key=key).protect(system),
    }

    def row(photo: Path) -> Floats:
        picture = read(photo).to_bytes()
        return np.stack([_figures(protected, picture, messages) for protected in arms.values()])

    made_with = [fingerprint(protected) for protected in arms.values()]
    asked = digest(made_with, messages, seed, [str(path.resolve()) for path in photos])
    rows = kept_rows(CACHE / f"{system.name}-{asked}.npy", photos, row, system.name)
    return {
        name: _compared(rows[:, arm], protected.bits, seed, counted=protected.keyring is None)
        for arm, (name, protected) in enumerate(arms.items())
    }


def _figures(protected: LockedWatermark, picture: Picture8, count: int) -> Floats:
    """Of one picture: p-values and matches, (2, messages).

    Matches are those in the whole picture, which are only there without a key.
    """
    messages = _fixed(protected.bits, count)
    p_values = [verdict.p_value for verdict in protected.verify([picture] * count, messages)]
    if protected.keyring is not None:
        return np.array([p_values, [np.nan] * count])
    bits = protected.decode([picture])[0] > 0
    return np.array([p_values, [float((bits == m).sum()) for m in messages]])


@lru_cache(maxsize=2)
def _fixed(bits: int, count: int) -> Bits:
    """Messages (count, bits), all-zero first."""
    others = [codeword(f"fixed message {k}", None, bits) for k in range(1, count)]
    return np.stack([np.zeros(bits, dtype=np.uint8), *others])


def _compared(rows: Floats, bits: int, seed: int, counted: bool) -> dict[str, Any]:
    """The figures of all pictures (pictures, 2, messages)."""
    pictures, _, messages = rows.shape
    resamples = np.random.default_rng(seed).integers(pictures, size=(BOOTSTRAPS, pictures))
    figures: dict[str, Any] = {
        "pictures": pictures,
        "messages": messages,
        "exceedance": _exceedance(rows[:, 0], resamples),
    }
    return figures | (_counted(rows[:, 1], bits, resamples) if counted else {})


def _counted(counts: Floats, bits: int, resamples: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The spread of match counts (pictures, messages), and its ratio to the binomial's."""
    ratios = _variance_ratios(counts, bits)
    low, high = percentiles(
        np.array([_variance_ratios(counts[rows], bits).mean() for rows in resamples])
    )
    return {
        "mean_match_rate": float(counts.mean() / bits),
        "variance_ratio": {
            "mean": float(ratios.mean()),
            "low": low,
            "high": high,
            "min": float(ratios.min()),
            "max": float(ratios.max()),
        },
        "match_histogram": np.bincount(
            counts.astype(np.int64).ravel(), minlength=bits + 1
        ).tolist(),
    }


def _variance_ratios(counts: Floats, bits: int) -> Floats:
    """Of each message: the variance of its matches over pictures, relative to the binomial's."""
    ratios: Floats = counts.var(axis=0, ddof=1) / (bits / 4)
    return ratios


def _exceedance(p_values: Floats, resamples: npt.NDArray[np.int64]) -> dict[str, Any]:
    """How often p <= level, for p-values (pictures, messages), with an interval over pictures.

    No event has no spread: then the upper end is that of none among so many independent pictures.
    """
    report = {}
    for level in LEVELS:
        per_picture = (p_values <= level).mean(axis=1)
        low, high = percentiles(per_picture[resamples].mean(axis=1))
        if not per_picture.any():
            high = rate(0, len(p_values))["high"]
        report[f"{level:g}"] = {
            "expected": level,
            "observed": float(per_picture.mean()),
            "low": low,
            "high": high,
            "at_most_expected": low <= level,
        }
    return report


def _variance(row: Row) -> str:
    """The spread of match counts, which nobody can count where there is a key."""
    interval = "{variance_ratio/mean|-:.2f} [{variance_ratio/low:.2f}, {variance_ratio/high:.2f}]"
    return shown(row, interval + " ({variance_ratio/min:.2f}-{variance_ratio/max:.2f})")


def _share(level: str, digits: int) -> str:
    observed = "{observed:%D} % [{low:%D}, {high:%D}]".replace("D", str(digits))
    return below(f"exceedance/{level}", observed)


CALIBRATION = Table(
    "Unmarked photos against fixed messages: how often p is at most a level",
    nested("watermark", "arm"),
    (
        ("watermark", "{watermark}"),
        ("", "{arm}"),
        ("variance / binomial (min-max over messages)", _variance),
        *(
            (f"p <= {level}", _share(level, digits))
            for level, digits in (("0.1", 1), ("0.01", 2), ("0.001", 3), ("1e-05", 4))
        ),
    ),
)


@measurement(
    "experiments calibration",
    watermarks_option,
    images_option,
    hash_option,
    seed_option,
    count_option,
    number_option("--messages", 20, "Fixed messages, all-zero first."),
)
def calibration_command(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    count: int | None,
    messages: int,
    seed: int,
) -> Measured:
    """Check the p-values of unmarked photos, for each of many fixed messages."""
    photos = find_photos(images)[:count]
    config = {"hash": hash, "messages": messages, "seed": seed, "photos": len(photos)}
    figures = {name: null_calibration(name, hash, photos, messages, seed) for name in watermarks}
    return Measured(config, figures, CALIBRATION.markdown(figures))
