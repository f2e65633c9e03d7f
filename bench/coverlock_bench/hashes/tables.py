"""Tables of what was measured on hashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_bench.hashes.bars import bars_summary
from coverlock_bench.markdown import figures_in, of, percent, table

LEVELS = {"0.01": 2, "0.001": 3, "0.0001": 4}
"""Levels of p-values, and the digits with which shares about as large are shown in per cent."""


def _calibration_table(results: Path) -> str:
    """Unmarked photos against fixed messages."""
    rows = []
    for watermark, arms in figures_in(results / "calibration.json").items():
        for arm, figures in arms.items():
            shares = [
                _exceedance(figures["exceedance"][rule][level], digits)
                for rule in ("hard", "soft")
                for level, digits in LEVELS.items()
            ]
            rows.append([watermark, arm, _variance_ratio(figures["variance_ratio"]), *shares])
    header = ["watermark", "", "variance / binomial (min-max over messages)"]
    shares = [
        f"{rule}, p <= 1e-{digits}" for rule in ("hard", "soft") for digits in LEVELS.values()
    ]
    return table([*header, *shares], rows)


def _variance_ratio(ratio: dict[str, float]) -> str:
    interval = f" [{ratio['low']:.2f}, {ratio['high']:.2f}]" if "low" in ratio else ""
    return f"{ratio['mean']:.2f}{interval} ({ratio['min']:.2f}-{ratio['max']:.2f})"


def _exceedance(share: dict[str, float], digits: int) -> str:
    observed, low, high, expected = (
        f"{100 * share[name]:.{digits}f}" for name in ("observed", "low", "high", "expected")
    )
    return f"{observed} % [{low}, {high}] expected {expected}"


def _hardening_table(results: Path) -> str:
    """One result file per watermark, so that another one can be added without measuring all."""
    files = sorted((results / "hardening").glob("*.json"))
    return hardening_summary({k: v for file in files for k, v in figures_in(file).items()})


def hardening_summary(figures: dict[str, Any]) -> str:
    """Marked photos as bound and hardened, by watermark."""
    rows = []
    for watermark, arms in figures.items():
        for arm in ("as bound", "hardened"):
            row = arms[arm]
            forged = [of(row[rule]["asr_gt1"], arms["photos"]) for rule in ("hard", "soft")]
            rows.append(
                [
                    watermark,
                    arm,
                    percent(row["hash_bit_error"]["none"]),
                    percent(row["hash_bit_error_mean_of_six"]),
                    percent(row["hash_bit_error"]["crop"]),
                    *(percent(row[rule]["tpr_mean_of_six"], 1) for rule in ("hard", "soft")),
                    percent(row["forged_code_agreement"], 1),
                    " / ".join(forged),
                    f"{row['psnr_mean']:.2f} dB",
                    f"{row['seconds_median']:.1f} s",
                ]
            )
    header = ["watermark", "", "code error as marked", "six distortions", "80 % crop"]
    genuine = ["genuine accepted, hard", "soft"]
    forged = ["code of forged and source agree", "forgeries accepted, hard / soft"]
    return table([*header, *genuine, *forged, "PSNR", "time"], rows)


def _hash_table(results: Path) -> str:
    return hash_summary(figures_in(results / "hash.json"))


def hash_summary(figures: dict[str, Any]) -> str:
    """Each hash of a report in one line, and fair coins to compare them with in the last."""
    rows = [
        [
            name,
            percent(row["bit_error_mean_of_six"]),
            f"{row['imbalance']:.3f}",
            f"{row['correlation']:.3f}",
            _spread(row["different"]),
            percent(row["different"]["accepted"]["256"], 3),
            _spread(row["similar"]),
            percent(row["similar"]["accepted"]["256"]),
            _amount(row["parameters"]),
            _amount(row["bytes"]),
            f"{row['times_dct']:.1f}",
        ]
        for name, row in figures["hashes"].items()
    ]
    coins = figures["fair_coins"]
    rows.append(
        [
            "fair coins",
            "",
            f"{coins['imbalance']:.3f}",
            f"{coins['correlation']:.3f}",
            _spread(coins),
            percent(coins["accepted"]["256"], 3),
            _spread(coins),
            percent(coins["accepted"]["256"]),
            *([""] * 3),
        ]
    )
    header = ["hash", "bit error, six distortions", "imbalance", "correlation of bits"]
    different = ["agreement of different pictures", "accepted"]
    similar = ["agreement of similar pictures", "accepted"]
    return table([*header, *different, *similar, "parameters", "bytes", "time / dct"], rows)


def _hash_distortions_table(results: Path) -> str:
    """Bit error of each hash under each distortion."""
    hashes = figures_in(results / "hash.json")["hashes"]
    distortions = next(iter(hashes.values()))["bit_error"]
    rows = [
        [distortion, *(percent(row["bit_error"][distortion]) for row in hashes.values())]
        for distortion in distortions
    ]
    return table(["distortion", *hashes], rows)


def _hash_lengths_table(results: Path) -> str:
    """Pairs of pictures that would be accepted for one another, by length of the message."""
    rows = []
    for name, row in figures_in(results / "hash.json")["hashes"].items():
        for kind in ("different", "similar"):
            shares = [percent(share, 3) for share in row[kind]["accepted"].values()]
            rows.append([name, f"{row[kind]['pairs']:,} {kind}", *shares])
            lengths = list(row[kind]["accepted"])
    return table(["hash", "pairs", *(f"L = {length}" for length in lengths)], rows)


def _hash_latency_table(results: Path) -> str:
    """Time of one picture relative to DINOv2-S; milliseconds of a busy machine tell nothing."""
    rows = [
        [name, f"{row['speed_up']:.0f}"]
        for name, row in figures_in(results / "hash-latency.json").items()
    ]
    return table(["hash", "pictures in the time of one by DINOv2-S"], rows)


def _hash_variants_table(results: Path) -> str:
    return hash_variants_summary(figures_in(results / "hash-variants.json"))


def hash_variants_summary(figures: dict[str, Any]) -> str:
    """Each way to a hash in one line, on held-out photos."""
    rows = [
        [
            name,
            percent(row["error"]),
            percent(row["error_crop"]),
            f"{row['pairs_mean']:.3f} ± {row['pairs_deviation']:.3f}",
            percent(row["pairs_accepted"], 3),
            _amount(row["parameters"]),
            f"{row['times_nano']:.1f}",
        ]
        for name, row in figures.items()
    ]
    header = ["hash", "bit error, six distortions", "under an 80 % crop"]
    pairs = ["agreement of different pictures", "accepted"]
    return table([*header, *pairs, "parameters", "time / nano"], rows)


def _spread(agreement: dict[str, Any]) -> str:
    return f"{agreement['mean']:.3f} ± {agreement['std']:.3f}"


def _amount(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _documents_table(results: Path) -> str:
    """Transplants between pages of text."""
    rows = [
        [
            name,
            f"{100 * row['agreement_mean']:.0f} % (at most {100 * row['agreement_max']:.0f} %)",
            *(
                f"{row['forgeries_accepted'][rule]} of {row['forgeries']}"
                for rule in ("hard", "soft")
            ),
        ]
        for name, row in figures_in(results / "documents.json").items()
    ]
    return table(["hash", "bits in which codes agree", "accepted, hard", "accepted, soft"], rows)


def _kinds_table(results: Path) -> str:
    """Different pictures of one kind, by hash: agreement, and pairs that would be accepted."""
    by_hash = figures_in(results / "hash-kinds.json")["kinds"]
    rows = []
    for kind, figures in next(iter(by_hash.values())).items():
        cells = []
        for kinds in by_hash.values():
            row = kinds[kind]
            crop, errors = row["bit_error"]["crop"], list(row["bit_error"].values())
            cells += [f"{row['mean']:.3f}", percent(row["accepted_64"], 1)]
            cells += [f"{percent(sum(errors) / len(errors), 1)} ({percent(crop, 1)})"]
        rows.append([kind + (" (one template)" if figures["one_template"] else ""), *cells])
    columns = ["agreement", "accepted", "bit error (crop)"]
    return table(["kind", *(f"{name}: {c}" for name in by_hash for c in columns)], rows)


def _collisions_table(results: Path) -> str:
    """White-box collisions of each hash, by search."""
    by_hash = figures_in(results / "hash-kinds.json")["collisions"]
    rows = [
        [
            search,
            *(
                f"{row[search]['accepted']:.1f} of {row[search]['targets']:.0f} "
                f"({percent(row[search]['agreement'], 0)})"
                for row in by_hash.values()
            ),
        ]
        for search in next(iter(by_hash.values()))
    ]
    return table(["search", *(f"{name}: accepted (bits that agree)" for name in by_hash)], rows)


def _bars_table(results: Path) -> str:
    """The bars of a default hash, for every hash of the report by kind."""
    return bars_summary(figures_in(results / "hash-kinds.json"))


TABLES: dict[str, Callable[[Path], str]] = {
    "calibration": _calibration_table,
    "hardening": _hardening_table,
    "hash": _hash_table,
    "hash-distortions": _hash_distortions_table,
    "hash-lengths": _hash_lengths_table,
    "hash-latency": _hash_latency_table,
    "hash-variants": _hash_variants_table,
    "documents": _documents_table,
    "hash-kinds": _kinds_table,
    "hash-collisions": _collisions_table,
    "hash-bars": _bars_table,
}
