"""Pictures of security figures, to be told apart without colour too: shapes and dashes differ."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

from coverlock_bench.auditing.security_tables import defense_name, error_parts, sweeps, tradeoff
from coverlock_bench.drawing import (
    COLOURS,
    DASHES,
    INK,
    MARKERS,
    new_figure,
    plain_axes,
    save,
)

# Fixed for the defences that appear everywhere, so that a reader learns them once.
_STYLES = {
    "none": ("#D55E00", "X"),
    "coverlock": ("#0072B2", "o"),
    "mhdw": ("#E69F00", "s"),
    "convnext": ("#CC79A7", "D"),
}


def draw_tradeoff(figures: dict[str, Any], file: Path) -> None:
    """ASR against TPR, one point per defence setting and rule, one panel per system."""
    systems = tradeoff(figures)
    if not systems:
        return
    figure = new_figure(4.2 * len(systems), 3.8)
    panels = figure.subplots(1, len(systems), squeeze=False)[0]
    for axes, (name, points) in zip(panels, systems.items(), strict=True):
        tradeoff_panel(axes, points, next(iter(figures["systems"][name]["security"].values())))
        axes.set_title(name, fontsize=10)
    _shared_legend(figure, panels)
    save(figure, file)


def tradeoff_panel(
    axes: Any, points: list[tuple[str, Any, float, float]], behind: dict[str, Any]
) -> None:
    """Filled marks are the hard rule, hollow ones the soft; the lower right corner is best.

    A line leads through what other thresholds of a filter would give.
    """
    for (defense, rule, *_), style in zip(points, _styles(points), strict=True):
        swept = sweeps(behind[defense], rule)
        dashes = DASHES[0] if rule == "hard" else DASHES[1]
        axes.plot(
            [100 * tpr for tpr, _ in swept],
            [100 * asr for _, asr in swept],
            color=style[0],
            linestyle=dashes,
            linewidth=1,
            marker=".",
        )
    for (defense, rule, tpr, asr), style in zip(points, _styles(points), strict=True):
        colour, marker = style
        axes.scatter(
            100 * tpr,
            100 * asr,
            s=64,
            marker=marker,
            edgecolors=colour,
            facecolors=colour if rule == "hard" else "none",
            linewidths=1.6,
            label=f"{defense_name(defense)}, {rule}",
            zorder=3,
            clip_on=False,
        )
    axes.set_xlim(0, 102)
    axes.set_ylim(-4, 104)
    axes.set_xlabel("genuine accepted, mean of six distortions (%)")
    axes.set_ylabel("GT@1 forgeries accepted (%)")
    plain_axes(axes)


def draw_transferability(figures: dict[str, Any], file: Path) -> None:
    """RT against the number of sources for every system, and RT@1 behind the lock."""
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    measured = {n: s["rt"] for n, s in figures["systems"].items() if s.get("rt", {}).get("points")}
    shown: set[int] = set()
    for number, (name, curve) in enumerate(measured.items()):
        style = {"color": COLOURS[number % 6], "marker": MARKERS[number % 6]}
        points = [p for p in curve["points"] if p["eight_bit"]]
        shown |= {p["sources"] for p in points}
        _interval(axes, points, **style, linestyle=DASHES[number % 6], mfc="none", label=name)
        if "rt" in curve.get("locked", {}):
            behind = {**curve["locked"], "sources": 1}
            _interval(axes, [behind], **style, linestyle="none", label=f"{name} behind CoverLock")
    _rt_axes(axes, sorted(shown))
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    save(figure, file)


def draw_errors(figures: dict[str, Any], file: Path) -> None:
    """Payload and hash errors under the six distortions, stacked, by system and defence."""
    rows = error_parts(figures)
    if not rows:
        return
    figure = new_figure(7.5, 0.8 + 0.34 * len(rows))
    axes = figure.subplots()
    labels = [label for label, _, _ in rows]
    payload = [100 * part for _, part, _ in rows]
    hashes = [100 * part for _, _, part in rows]
    axes.barh(labels, payload, color=COLOURS[0], label="payload")
    axes.barh(labels, hashes, left=payload, color=COLOURS[4], hatch="///", label="hash")
    axes.invert_yaxis()
    axes.set_xlabel("bit errors, mean of six distortions (%)")
    axes.legend(fontsize=8, frameon=False)
    plain_axes(axes)
    save(figure, file)


def rt_panel(axes: Any, curve: dict[str, Any]) -> None:
    """RT against the number of sources, 8-bit and float, with intervals."""
    for depth, dashes, marker in ((True, DASHES[0], MARKERS[0]), (False, DASHES[1], MARKERS[1])):
        points = [p for p in curve["points"] if p["eight_bit"] is depth]
        if points:
            _interval(
                axes,
                points,
                color=COLOURS[1] if depth else COLOURS[6],
                linestyle=dashes,
                marker=marker,
                mfc="none",
                label="8-bit pictures" if depth else "floats",
            )
    if "rt" in curve.get("locked", {}):
        behind = {**curve["locked"], "sources": 1}
        style = {"color": COLOURS[0], "marker": "o", "linestyle": "none"}
        _interval(axes, [behind], **style, label="behind CoverLock")
    _rt_axes(axes, sorted({p["sources"] for p in curve["points"]}))
    axes.legend(fontsize=8, frameon=False)


def _interval(axes: Any, points: list[dict[str, Any]], **style: Any) -> None:
    """RT of some points, with the interval of each."""
    below = [max(p["rt"] - p["low"], 0) for p in points]
    above = [max(p["high"] - p["rt"], 0) for p in points]
    counts, rt = [p["sources"] for p in points], [p["rt"] for p in points]
    axes.errorbar(counts, rt, yerr=[below, above], capsize=3, **style)


def _rt_axes(axes: Any, counts: list[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel("sources averaged, s")
    axes.set_ylabel("RT@s")
    plain_axes(axes)


def distortion_panel(axes: Any, defenses: dict[str, Any], rule: str, names: list[str]) -> None:
    """TPR under each distortion, one line of marks per defence, with intervals."""
    shown = {
        name: cell
        for name, cell in defenses.items()
        if all("tpr" in cell.get("genuine", {}).get(change, {}) for change in names)
    }
    offsets = [0.16 * (i - (len(shown) - 1) / 2) for i in range(len(shown))]
    styles = _styles([(name,) for name in shown])
    for (name, cell), offset, (colour, marker) in zip(shown.items(), offsets, styles, strict=True):
        rates = [cell["genuine"][change]["tpr"][rule] for change in names]
        axes.errorbar(
            [i + offset for i in range(len(names))],
            [100 * r["rate"] for r in rates],
            yerr=[
                [100 * (r["rate"] - r["low"]) for r in rates],
                [100 * (r["high"] - r["rate"]) for r in rates],
            ],
            color=colour,
            marker=marker,
            linestyle="none",
            capsize=2,
            label=defense_name(name),
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(-4, 104)
    axes.set_ylabel(f"genuine accepted, {rule} rule (%)")
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    plain_axes(axes)


def _styles(points: list[Any]) -> list[tuple[str, str]]:
    spare = cycle([("#009E73", "^"), ("#56B4E9", "v"), (INK, "P")])
    chosen: dict[str, tuple[str, str]] = {}
    for point in points:
        if point[0] not in chosen:
            chosen[point[0]] = _STYLES.get(point[0]) or next(spare)
    return [chosen[point[0]] for point in points]


def _shared_legend(figure: Any, panels: Any) -> None:
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4, fontsize=8)
