"""The report of an audit: one HTML file that opens offline and prints."""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from coverlock_bench.auditing.exhibits import Exhibit
from coverlock_bench.auditing.verdict import (
    GIVEN,
    Findings,
    attack_name,
    defense_name,
    given,
    omissions,
)
from coverlock_bench.intervals import LEVEL
from coverlock_bench.settings import compared
from coverlock_sdk.errors import needs
from coverlock_web.inlining import VIEWER, inlined, source
from coverlock_web.site import rate_text as power_text

UNBROKEN = "\N{NO-BREAK SPACE}"
TEMPLATES = Path(__file__).parent / "templates"


def require_packages() -> None:
    """Check what a report needs, before anything is measured for it."""
    for package in ("jinja2", "scipy", "skimage"):
        with needs("an audit", None, "bench,torch"):
            import_module(package)


def rate_text(rate: dict[str, Any]) -> str:
    """A rate with its count and interval: ``0 of 100 (0.0-3.6 %)``."""
    ends = f"{100 * rate['low']:.1f}-{100 * rate['high']:.1f} %"
    return f"{rate['successes']} of {rate['trials']} ({ends})"


def render(document: dict[str, Any], found: Findings, shown: list[Exhibit], command: str) -> str:
    """The report of an audit whose result file holds ``document``."""
    require_packages()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "attack": attack_name,
        "defense": defense_name,
        "rate": rate_text,
        "power": power_text,
        "percent": lambda share, digits=1: f"{100 * share:.{digits}f}{UNBROKEN}%",
        "unbroken": lambda text: text.replace(" %", f"{UNBROKEN}%").replace(
            "p = ", f"p{UNBROKEN}={UNBROKEN}"
        ),
    }
    attacks = sorted(document["config"]["attacks"], key=lambda name: list(GIVEN).index(given(name)))
    of = attrgetter("group")
    page: str = environment.get_template("report.html").render(
        document=document,
        figures=document["figures"],
        found=found,
        attackers=[(GIVEN[kind], list(names)) for kind, names in groupby(attacks, given)],
        omitted=list(omissions(document["figures"])),
        exhibits={group: list(some) for group, some in groupby(sorted(shown, key=of), of)},
        level=LEVEL,
        lock=compared(document["figures"]["security"])[1],
        command=command,
        viewer=_viewer(),
    )
    return page


def _viewer() -> dict[str, str]:
    """The slider that compares two pictures, taken from the verify page."""
    modules = {name: source(name) for name in VIEWER}
    modules["viewers.js"] = (TEMPLATES / "viewers.js").read_text()
    return {
        "style": source("viewer.css"),
        "modules": inlined(modules),
        "boot": source("boot.js"),
    }
