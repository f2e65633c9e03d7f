"""The README's table: what can be forged without the lock and with it, and what the lock costs.

It brings together what three commands measured, each with its own photos of the same sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coverlock_bench.tables import Row, Table
from coverlock_sdk.loading import DEFAULT_HASH

PHOTOS = "coco"
LOCK = "coverlock"
ATTACKS = {"gt": "GT@1", "averaging": "averaging", "wmforger": "WMForger"}


def _rows(results: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each watermark that was forged, and whose genuine pictures were counted."""
    for system, by_photos in results["bench forgeries"].items():
        genuine = results["bench hardening"].get(f"{system}, {DEFAULT_HASH}")
        if genuine is not None:
            yield {
                "system": system,
                "rt": results["bench references"][system]["rt"]["100"],
                "forged": by_photos[PHOTOS],
                "genuine": genuine,
            }


def _forged(attack: str) -> str:
    bare, locked = (f"forged/{attack}/{defense}/soft" for defense in ("none", LOCK))
    return (
        f"{{{bare}/successes|-}} of {{{bare}/trials}} → {{{locked}/successes|-}} of "
        f"{{{locked}/trials}} (at most {{{locked}/high:%3}} %)"
    )


HEADLINE = Table(
    "Forged without the lock and with it",
    _rows,
    [
        ("system", "{system}"),
        ("RT@100", "{rt/rt:.3f}"),
        *((f"{name} accepted", _forged(attack)) for attack, name in ATTACKS.items()),
        (
            "genuine under six distortions",
            "{genuine/no lock/soft/tpr_mean_of_six:%1} % → "
            "{genuine/hardened/soft/tpr_mean_of_six:%1} %",
        ),
    ],
)
