"""The tables of what measures a deployment: latency, and the service under load and attack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coverlock_bench.tables import Row, Table


def _whole(figures: Any) -> Iterator[Row]:
    """The timings from a JPEG file to a verdict, and from a JPEG file to a marked picture."""
    for name, subject in figures["subjects"].items():
        for row in subject["rows"]:
            if row["stage"] in ("end to end", "embed"):
                speed = 1000 * row["batch"] / row["milliseconds"]
                what = "verify" if row["stage"] == "end to end" else "embed"
                gflop = sum(subject["gflop"].values()) if what == "verify" else None
                yield {**row, "subject": name, "what": what, "speed": speed, "gflop": gflop}


LATENCY = Table(
    "Verifying and embedding on one machine, beside PyTorch",
    _whole,
    (
        ("watermark+hash", "{subject}"),
        ("", "{what}"),
        ("batch", "{batch}"),
        ("GFLOP a picture", "{gflop|-:.2f}"),
        ("runtime", "{runtime} {precision}"),
        ("a batch", "{milliseconds:.1f} ms"),
        ("pictures a second", "{speed:.1f}"),
        ("PyTorch's time to this", "{ratio_to_torch/median|-:.2f} x"),
    ),
)


def _loads(figures: Any) -> Iterator[Row]:
    """One row for each kind of load, with what was answered and what was refused."""
    for load in ("steady", "overload"):
        statuses = figures[load]["statuses"]
        asked, answered = sum(statuses.values()), statuses.get("200", 0)
        yield {**figures[load], "load": load, "answered": answered, "refused": asked - answered}


SERVICE = Table(
    "The service under load",
    _loads,
    (
        ("load", "{load}"),
        ("answered", "{answered:,}"),
        ("refused at once", "{refused:,}"),
        ("a second", "{answered_per_second:.0f}"),
        ("median", "{p50_ms:.0f} ms"),
        ("99 % within", "{p99_ms:.0f} ms"),
    ),
)

SIEGE = Table(
    "What other callers notice of an attack",
    lambda figures: ({**row, "attack": name} for name, row in figures.items() if "asked" in row),
    (
        ("attack", "{attack}"),
        ("asked", "{asked}"),
        ("answered within 2 s", "{in_time:%0} %"),
        ("median", "{p50_s|never:.2f} s"),
        ("slowest", "{worst_s|never:.2f} s"),
    ),
)
