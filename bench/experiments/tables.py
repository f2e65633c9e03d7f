"""Tables of the README and the docs, rendered from result files and never typed.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from pkgutil import resolve_name
from statistics import fmean, stdev
from typing import Any

import click

from coverlock_bench.tables import Columns, Row, Table, nested, shown
from coverlock_sdk.errors import CoverLockError

COUNTS = (1, 10, 100)
"""Numbers of sources for which RT of a trained network is recorded."""


def _over_seeds(row: Row) -> Row:
    """A network that was trained with one or more seeds, or with none, as means over them."""
    runs = list(row.get("seeds", {}).values())
    means: dict[str, Any] = {"runs": len(runs)}
    if runs:
        means |= {name: fmean(run[name] for run in runs) for name in ("bit_accuracy", "psnr")}
        means["covers"] = runs[0]["covers_seen"]
        counted = {point.get("messages") for run in runs for point in run["rt"].values()}
        means["messages"] = " or ".join(map(str, sorted(counted - {None})))
    for count in map(str, COUNTS):
        values = [run["rt"][count]["rt"] for run in runs if count in run["rt"]]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        means[f"rt@{count}"] = f"{fmean(values):.2f}{spread}" if values else None
    return {**row, **means}


TRAINED: Columns = (("seeds", "{runs}"), ("covers seen", "{covers|-:,}"))
MEASURED: Columns = (
    ("bits read", "{bit_accuracy|-:.3f}"),
    ("PSNR", "{psnr|-:.1f} dB"),
    *((f"RT@{count}", f"{{rt@{count}|-}}") for count in COUNTS),
)


def _intervention_columns(figures: Any) -> Columns:
    """Ours, and what the paper reports in brackets; where it has no RT, training failed there."""
    published = ["{accuracy:.3f}", "{psnr:.2f} dB", *(f"{{rt/{count}:.3f}}" for count in COUNTS)]

    def beside(ours: Any, theirs: str) -> Any:
        def text(row: Row) -> str:
            failed = theirs.startswith("{rt") and "rt" not in row["paper"]
            paper = "training failure" if failed else shown(row["paper"], theirs)
            return f"{shown(row, ours)} ({paper})" if paper else shown(row, ours)

        return text

    pairs = zip(MEASURED, published, strict=True)
    compared = [(f"{heading} (paper)", beside(ours, theirs)) for (heading, ours), theirs in pairs]
    bits, messages = ("bits", "{settings/bits|-}"), ("messages of RT", "{messages|-}")
    return [("variant", "{variant}"), bits, *TRAINED, *compared, messages]


INTERVENTIONS = Table(
    "Each variant with its quality and RT, as the mean over seeds, and the paper's in brackets",
    lambda figures: [
        _over_seeds({**row, "variant": label.replace("-", " ")})
        for part in ("trained", "untrained")
        for label, row in figures[part].items()
    ],
    _intervention_columns,
)
TRAINING_FACTORS = Table(
    "Each training choice with what became of quality and RT",
    lambda figures: map(_over_seeds, nested("watermark", "changed")(figures)),
    (("watermark", "{watermark}"), ("changed", "{changed}"), *TRAINED, *MEASURED),
)


PLACES = {
    "binding": ("forgers", "experiments.forgers:BOUND_PARTS"),
    "bounds": ("forgers", "experiments.forgers:BOUNDS"),
    "calibration": ("calibration", "experiments.calibration:CALIBRATION"),
    "deployed": ("deployed", "experiments.deployed:COSTS"),
    "forgers": ("forgers", "experiments.forgers:FORGERS"),
    "forgers-dinov2": ("forgers-dinov2", "experiments.forgers:FORGERS"),
    "hash": ("hash", "coverlock_bench.hashes.tables:HASHES"),
    "hash-distortions": ("hash", "coverlock_bench.hashes.tables:HASH_DISTORTIONS"),
    "head": ("head", "experiments.head:HEAD"),
    "headline": ("headline", "experiments.headline:HEADLINE"),
    "interventions": ("interventions", "experiments.tables:INTERVENTIONS"),
    "key-learners": ("key-learners", "experiments.summaries:KEY_LEARNERS"),
    "key-learners-dinov2": ("key-learners-dinov2", "experiments.summaries:KEY_LEARNERS"),
    "lengths": ("lengths", "experiments.headline:HEADLINE"),
    "lengths-robustness": ("lengths", "experiments.headline:ROBUSTNESS"),
    "parity": ("deployed", "experiments.deployed:PARITY"),
    "paper": ("paper", "experiments.headline:HEADLINE"),
    "paper-robustness": ("paper", "experiments.headline:ROBUSTNESS"),
    "paper-split": ("paper", "experiments.headline:SPLIT"),
    "overlaid": ("forgers", "experiments.forgers:OVERLAID"),
    "readme": ("headline forgers", "experiments.summaries:README"),
    "robustness": ("headline", "experiments.headline:ROBUSTNESS"),
    "siege": ("siege", "experiments.summaries:SIEGE"),
    "speed": ("speed", "experiments.speed:SPEED"),
    "speed-ratios": ("speed", "experiments.speed:RATIOS"),
    "split": ("headline", "experiments.headline:SPLIT"),
    "standing": ("standing", "experiments.summaries:STANDING"),
    "threats": ("headline forgers", "experiments.summaries:THREATS"),
    "training-factors": ("training-factors", "experiments.tables:TRAINING_FACTORS"),
    "transferability": ("transferability", "experiments.transferability:TRANSFERABILITY"),
    "walkers": ("walkers", "experiments.summaries:WALKERS"),
    "white-box": ("white-box", "experiments.white_box:WHITE_BOX"),
}
"""The result files of each table, and where the table is declared."""
_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def _figures(path: Path) -> Any:
    """The figures of a result file."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise CoverLockError(f"{path} is missing: run 'python -m experiments evidence'") from None
    return document["figures"]


def render(text: str, results: Path) -> str:
    """``text`` with every table made anew from the files in ``results``."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in PLACES:
            raise CoverLockError(f"there is no table '{name}': use one of {', '.join(PLACES)}")
        files, place = PLACES[name]
        figures = {file: _figures(results / f"{file}.json") for file in files.split()}
        table: Table = resolve_name(place)
        shown = table.markdown(figures if len(figures) > 1 else figures[files])
        return f"{match.group(1)}{shown}\n{match.group(3)}"

    return _BLOCK.sub(replace, text)


@click.command("tables")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--check", is_flag=True, help="Only say whether the tables are up to date.")
def tables_command(files: tuple[Path, ...], results: Path, check: bool) -> None:
    """Render the tables of Markdown FILES from result files."""
    texts = {path: path.read_text() for path in files}
    rendered = {path: render(text, results) for path, text in texts.items()}
    stale = [path for path in files if rendered[path] != texts[path]]
    if check and stale:
        names = " ".join(map(str, stale))
        raise CoverLockError(f"tables are out of date: run 'python -m experiments tables {names}'")
    for path in stale:
        path.write_text(rendered[path])
