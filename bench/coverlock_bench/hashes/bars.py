"""The bars that a default hash has to clear, and which of them a report's hashes do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coverlock_bench.hashes.kind_report import KIND_BARS

CROPS = "div2k-crops"
"""The folder whose photos are crops of large pictures; its pairs have a row of their own."""


@dataclass(frozen=True)
class Bar:
    """A figure and the highest value it may have."""

    what: str
    measured: float
    allowed: float
    digits: int = 2
    unit: str = " %"

    @property
    def met(self) -> bool:
        """Whether the figure is low enough."""
        return self.measured <= self.allowed

    def row(self) -> dict[str, str]:
        """The bar as cells of a table."""
        measured, allowed = (
            f"{value:.{self.digits}f}{self.unit}" for value in (self.measured, self.allowed)
        )
        met = "yes" if self.met else "**no**"
        return {"bar": self.what, "measured": measured, "allowed": allowed, "met": met}


def bars_of(name: str, report: dict[str, Any]) -> Iterator[Bar]:
    """Every bar that a report decides for the hash ``name``."""
    row = report["hashes"][name]
    different = row["different"]
    yield Bar("photos: bit error, six distortions", 100 * row["bit_error_mean_of_six"], 2.0)
    yield Bar("photos: bit error, 80 % crop", 100 * row["bit_error"]["crop"], 5.0)
    yield Bar("photos: mean agreement off 0.5", abs(different["mean"] - 0.5), 0.01, 3, "")
    yield Bar("photos: deviation of agreement", different["std"], 0.035, 4, "")
    yield Bar("photos: pairs at 167 of 256", 100 * different["accepted"]["256"], 0.05, 3)
    if CROPS in row["folders"]:
        accepted = row["folders"][CROPS]["accepted"]["256"]
        yield Bar(f"{CROPS}: pairs at 167 of 256", 100 * accepted, 0.05, 3)
    for kind, figures in report.get("kinds", {}).get(name, {}).items():
        mean, accepted = KIND_BARS[bool(figures["one_template"])]
        yield Bar(f"{kind}: mean agreement", figures["mean"], mean, 3, "")
        yield Bar(f"{kind}: pairs at 51 of 64", 100 * figures["accepted_64"], 100 * accepted)
    searches = report.get("collisions", {}).get(name, {})
    for search, share in (("34 dB, key", 2 / 60), ("34 dB", 6 / 60)):
        if search in searches:
            figures = searches[search]
            allowed = share * figures["targets"]
            what = f"collisions of {figures['targets']:.0f}, {search}"
            yield Bar(what, figures["accepted"], allowed, 1, "")
    if row["bytes"] is not None:
        yield Bar("weights, megabytes", row["bytes"] / 1e6, 10.0, 1, "")
