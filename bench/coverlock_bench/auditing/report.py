"""The page of an audit: one HTML file that opens offline and prints."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from coverlock_bench.auditing.exhibits import Exhibit
from coverlock_bench.auditing.figures import (
    distortion_panel,
    rt_panel,
    tradeoff_panel,
)
from coverlock_bench.auditing.findings import ARMS, NETWORKS, Findings, accepted
from coverlock_bench.auditing.omissions import omissions
from coverlock_bench.auditing.security_tables import (
    attack_name,
    defense_name,
    is_reduced,
    rate_text,
    tradeoff,
)
from coverlock_bench.drawing import new_figure, svg
from coverlock_bench.intervals import LEVEL
from coverlock_bench.settings import DEFAULT_RULE
from coverlock_sdk.errors import needs
from coverlock_sdk.locking.verdict import RULES
from coverlock_web.inlining import VIEWER, inlined, source

TEMPLATES = Path(__file__).parent / "templates"


def require_packages() -> None:
    """Say what is missing for a report before anything is measured for it."""
    for package in ("jinja2", "matplotlib", "scipy"):
        with needs("an audit", None, "bench,torch"):
            import_module(package)


def render(document: dict[str, Any], findings: Findings, shown: list[Exhibit], command: str) -> str:
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
        "percent": lambda share, digits=1: f"{100 * share:.{digits}f} %",
    }
    figures = document["figures"]
    page: str = environment.get_template("report.html").render(
        document=document,
        figures=figures,
        findings=findings,
        forged={arm: accepted(figures, arm) for arm in ARMS.values()},
        omitted=omissions(figures),
        exhibits={group: [e for e in shown if e.group == group] for group in _groups(shown)},
        plots=_plots(figures, document["config"]["distortions"]),
        rules=sorted(RULES, key=lambda rule: rule != DEFAULT_RULE),
        default_rule=DEFAULT_RULE,
        distortions=document["config"]["distortions"],
        level=LEVEL,
        reduced=is_reduced(figures),
        command=command,
        networks=NETWORKS,
        viewer=_viewer(),
    )
    return page


def _viewer() -> dict[str, str]:
    """What shows two pictures under a slider: the verify page's own parts."""
    modules = {name: source(name) for name in VIEWER}
    modules["viewers.js"] = (TEMPLATES / "viewers.js").read_text()
    return {
        "style": source("viewer.css"),
        "modules": inlined(modules),
        "boot": source("boot.js"),
    }


def _groups(shown: list[Exhibit]) -> list[str]:
    return list(dict.fromkeys(exhibit.group for exhibit in shown))


def _plots(figures: dict[str, Any], distortions: list[str]) -> dict[str, str]:
    """Plots as inline SVG, by name; one without figures is left out."""
    plots = {}
    if figures["rt"]["points"]:
        figure = new_figure(5.2, 3.3)
        rt_panel(figure.subplots(), figures["rt"])
        plots["rt"] = svg(figure)
    names = ["clean", *distortions]
    genuine = [cell.get("genuine", {}) for cell in figures["security"].values()]
    if any(all("tpr" in cell.get(name, {}) for name in names) for cell in genuine):
        figure = new_figure(8.2, 3.4)
        distortion_panel(figure.subplots(), figures["security"], DEFAULT_RULE, names)
        plots["distortions"] = svg(figure)
    points = tradeoff({"systems": {figures["name"]: {"security": {"": figures["security"]}}}})
    if points:
        figure = new_figure(5.6, 3.8)
        axes = figure.subplots()
        tradeoff_panel(axes, points[figures["name"]], figures["security"])
        axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
        plots["tradeoff"] = svg(figure)
    return plots
