"""The paper's figure 2 from a result file: RT of every variant, and how fast each one learned."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from coverlock_bench.drawing import new_figure, save

HIGH, LOW = "#b2543f", "#33658a"  # told apart in grey and by colour-blind readers
THRESHOLD = 0.5


def draw_interventions(figures: dict[str, Any], file: Path) -> None:
    """Write the picture to ``file``."""
    save(interventions_figure(figures), file)


def interventions_figure(figures: dict[str, Any]) -> Any:
    """Bars of RT@100 with the paper's value as a mark, beside accuracy against covers seen."""
    rows = figures["trained"]
    names = [_caption(label) for label in rows]
    per_seed = [[_largest(run["rt"]) for run in row["seeds"].values()] for row in rows.values()]
    means = [fmean(values) for values in per_seed]
    colours = [HIGH if mean >= THRESHOLD else LOW for mean in means]
    figure = new_figure(12, 4.2)
    bars, curves = figure.subplots(1, 2, width_ratios=[3, 2])
    places = range(len(names))
    bars.bar(places, means, color=colours)
    for place, mean, values in zip(places, means, per_seed, strict=True):
        if len(values) > 1:
            bars.errorbar(place, mean, yerr=stdev(values), color="black", capsize=3)
    paper = [row["paper"]["rt"]["100"] for row in rows.values()]
    bars.plot(places, paper, "k_", markersize=14, label="paper, published size")
    bars.set_xticks(places, names, rotation=35, ha="right", fontsize=7)
    bars.set_ylabel("residual transferability RT@100")
    bars.set_ylim(0, 1.05)
    bars.legend(frameon=False, fontsize=8)
    for (label, row), colour in zip(rows.items(), colours, strict=True):
        seen, accuracy = zip(*next(iter(row["seeds"].values()))["curve"], strict=True)
        covers = [images / (1 + row["recipe"]["inverted_twins"]) for images in seen]
        style = "-" if colour == HIGH else "--"
        name = _caption(label).replace("\n", " ")
        curves.plot(covers, accuracy, style, linewidth=1.1, label=name)
    curves.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    curves.set_xscale("log")
    curves.set_xlabel("covers seen in training")
    curves.set_ylabel("bits read (training)")
    return figure


def _caption(label: str) -> str:
    return (
        label.replace("-with-", "\n+ ").replace("-without-", "\n\N{MINUS SIGN} ").replace("-", " ")
    )


def _largest(rt: dict[str, Any]) -> float:
    """RT at the largest number of sources that was measured."""
    value: float = rt[max(rt, key=int)]["rt"]
    return value
