"""How often white-box forgers succeed, over how visible their changes are."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from coverlock_bench.drawing import COLOURS, DASHES, MARKERS, new_figure, plain_axes, save
from coverlock_bench.hashes.collision_report import MORE_SEARCHES, SEARCHES

PANELS = {"without a key": False, "with a key": True}


def draw_collisions(figures: dict[str, Any], file: Path) -> None:
    """Forgeries accepted at each budget, a line for each hash, without and with a key."""
    by_hash: dict[str, dict[str, Any]] = figures["collisions"]
    figure = new_figure(7.2, 3.2)
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (title, keyed) in zip(panels, PANELS.items(), strict=True):
        budgets = _budgets(keyed)
        for number, (name, found) in enumerate(by_hash.items()):
            reached = {psnr: found[search] for psnr, search in budgets.items() if search in found}
            if not reached:
                continue  # a baseline that cannot lock has no key
            axes.plot(
                list(reached),
                [100 * row["accepted"] / row["targets"] for row in reached.values()],
                marker=MARKERS[number],
                markersize=5,
                linestyle=DASHES[number],
                color=COLOURS[number],
                label=name,
            )
        axes.set_title(title, fontsize=9)
        axes.set_xticks(list(budgets), [_visible(psnr, by_hash, budgets) for psnr in budgets])
        plain_axes(axes)
    panels[0].set_ylabel("white-box forgeries accepted, %")
    panels[0].set_ylim(-3, 103)
    panels[0].legend(fontsize=8, frameon=False, loc="lower left")
    save(figure, file)


def _budgets(keyed: bool) -> dict[float, str]:
    """By decibels, the search that may change anything within them."""
    return {
        settings["psnr"]: search
        for search, settings in sorted(
            {**SEARCHES, **MORE_SEARCHES}.items(), key=lambda each: float(each[1]["psnr"])
        )
        if "space" not in settings and settings.get("keyed", False) == keyed
    }


def _visible(psnr: float, by_hash: dict[str, dict[str, Any]], budgets: dict[float, str]) -> str:
    """A budget in decibels, and how similar pictures are on average that use it up."""
    similar = [row[budgets[psnr]]["ssim"] for row in by_hash.values() if budgets[psnr] in row]
    return f"{psnr:.0f} dB" + (f"\nSSIM {fmean(similar):.3f}" if similar else "")
