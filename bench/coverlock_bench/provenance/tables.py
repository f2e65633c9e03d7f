"""Tables of what content credentials gain from the lock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coverlock_bench.tables import Row, Table, below, nested

_COUNT = "{successes} of {trials} ({low:%1}-{high:%1} %)"


def _round_trips(figures: Any) -> Iterable[Row]:
    for row in nested("watermark", "hash")(figures):
        for way, found in row["round_trips"].items():
            yield {**row, "way": way, **found}


def _distances(figures: Any) -> Iterable[Row]:
    return [{**row, "hash": name} for name, row in figures.items()]


def _edits(figures: Any) -> Iterable[Row]:
    for kind, areas in figures["edits"].items():
        for area, row in areas.items():
            yield {**row, "kind": kind, "area": float(area)}


def _sizes(figures: Any) -> Iterable[Row]:
    return [{**row, "size": size} for size, row in figures.items() if size != "networks"]


ROUND_TRIPS = Table(
    "Stripped pictures that find their manifest",
    _round_trips,
    [
        ("watermark", "{watermark}, {bits} bits"),
        ("hash", "{hash}"),
        ("handed on as", "{way}"),
        ("manifest found and valid", below("found", _COUNT)),
        ("a wrong manifest found", "{wrong}"),
        ("furthest fingerprint, of so many bits allowed", "{largest_distance|-} of {tolerance}"),
    ],
)

TRANSPLANTS = Table(
    "Transplanted marks that lead to the manifest they were lifted from",
    nested("watermark", "hash"),
    [
        ("watermark", "{watermark}, {bits} bits"),
        ("hash", "{hash}"),
        ("watermark alone", below("transplants/unlocked", _COUNT)),
        ("watermark and fingerprint", below("transplants/unlocked_fingerprint", _COUNT)),
        ("lock alone", below("transplants/lock_alone", _COUNT)),
        ("lock and fingerprint (`resolve`)", below("transplants/locked", _COUNT)),
        ("named as transplanted", below("transplants/told", _COUNT)),
    ],
)

DISTANCES = Table(
    "Fingerprints of different photos, and of one photo before and after",
    _distances,
    [
        ("hash", "{hash}"),
        ("pairs of photos", "{pairs:,}"),
        ("nearest pair", "{nearest} bits"),
        ("1 pair in 100,000 within", "{distance_at/1e-05} bits"),
        ("1 in 1,000", "{distance_at/0.001} bits"),
        ("one photo: half size, JPEG 80", lambda row: _drift(row, "half size, JPEG 80")),
        ("crop to 80 %", lambda row: _drift(row, "crop")),
        ("brightness x 1.2", lambda row: _drift(row, "brightness")),
    ],
)

LOOKUPS = Table(
    "Milliseconds to find one picture among many",
    _sizes,
    [
        ("manifests in the repository", "{size}"),
        ("fingerprint, then lock", "{shortlist:.1f} ms"),
        ("payload bits it takes", "{bits}"),
        ("lock, all serials", "{all|-:.1f} ms"),
        ("after their codewords are made in", "{book|-:.0f} ms"),
        ("payload bits it takes", "{all_bits}"),
    ],
)

EDITED = Table(
    "Edits found where they are",
    _edits,
    [
        ("edit", "{kind}"),
        ("area", "{area:%0} %"),
        ("found", below("found", _COUNT)),
        ("cells of it marked", "{covered:%0} %"),
        ("something else marked", below("elsewhere", _COUNT)),
    ],
)

UNALTERED = Table(
    "Pictures that nobody edited",
    lambda figures: [{**row, "way": way} for way, row in figures["unaltered"].items()],
    [
        ("what happened to it", "{way}"),
        ("comparable", below("comparable", _COUNT)),
        ("false alarms among these", "{false_alarms/successes|-} of {false_alarms/trials|-}"),
    ],
)


def _drift(row: Row, way: str) -> str:
    drift = row["drift"][way]
    return f"{drift['median']:.0f} (at most {drift['largest']})"
