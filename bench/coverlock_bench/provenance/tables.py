"""Tables of ``coverlock bench alterations``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coverlock_bench.tables import Row, Table, below

_COUNT = "{successes} of {trials} ({low:%1}-{high:%1} %)"


def _edits(figures: Any) -> Iterable[Row]:
    for kind, areas in figures["edits"].items():
        for area, row in areas.items():
            yield {**row, "kind": kind, "area": float(area)}


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
