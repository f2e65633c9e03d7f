"""Tables of the watermarks and classifiers that were trained here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from coverlock_bench.markdown import figures_in, table
from coverlock_bench.zoo.trained import COUNTS, covers_seen
from coverlock_sdk.images.distortions import EVALUATION

RT_HEADER = tuple(f"RT@{count}" for count in COUNTS)
MEASURED_HEADER = ("bits read", "PSNR", *RT_HEADER)
PHASES = ("loading", "encoding", "noise", "decoding", "learning", "validation")
"""Of training, in the order of a step."""
TRAINED_HEADER = ("seeds", "covers seen", *MEASURED_HEADER)


def _references_table(results: Path) -> str:
    return references_summary(figures_in(results / "references.json"))


def references_summary(figures: dict[str, Any]) -> str:
    """The watermarks trained here: quality, bits read under the six distortions, and RT."""
    rows = []
    for name, row in figures.items():
        held_out = row["card"]["held_out"]
        distorted = held_out["accuracy_under_distortion"]
        rows.append(
            [
                name,
                f"{row['bits']} at {row['side']} px",
                f"{covers_seen(row['card'], row['card']['recipe']):,}",
                f"{held_out['bit_accuracy']:.3f}",
                f"{held_out['psnr_mean']:.1f} dB",
                *(f"{distorted[distortion]:.3f}" for distortion in EVALUATION),
                *(f"{row['rt'][n]['rt']:.3f}" if n in row["rt"] else "-" for n in map(str, COUNTS)),
            ]
        )
    header = ["watermark", "bits", "covers seen", "bits read", "PSNR", *EVALUATION]
    return table([*header, *RT_HEADER], rows)


def _interventions_table(results: Path) -> str:
    return interventions_summary(figures_in(results / "interventions.json"))


def interventions_summary(figures: dict[str, Any]) -> str:
    """Each variant with its quality and RT, as the mean over seeds, and the paper's in brackets."""
    rows = []
    for label, row in figures["trained"].items():
        seeds, covers, *measured = _trained_cells(row)
        rows.append([label.replace("-", " "), seeds, covers, *_beside(measured, row["paper"])])
    for label, row in figures["untrained"].items():
        measured = ["-"] * len(MEASURED_HEADER)
        rows.append([label.replace("-", " "), "0", "-", *_beside(measured, row["paper"])])
    compared = [f"{name} (paper)" for name in MEASURED_HEADER]
    return table(["variant", "seeds", "covers seen", *compared], rows)


def _training_factors_table(results: Path) -> str:
    return training_factors_summary(figures_in(results / "training-factors.json"))


def training_factors_summary(figures: dict[str, Any]) -> str:
    """Each training choice with what became of quality and RT."""
    rows = [
        [system, change, *_trained_cells(row)]
        for system, changes in figures.items()
        for change, row in changes.items()
    ]
    return table(["watermark", "changed", *TRAINED_HEADER], rows)


def _trained_cells(row: dict[str, Any]) -> list[str]:
    """The cells under ``TRAINED_HEADER`` of a network trained with one or more seeds."""
    runs = list(row["seeds"].values())
    cells = [str(len(runs)), f"{covers_seen(runs[0], row['recipe']):,}"]
    cells.append(f"{fmean(run['bit_accuracy'] for run in runs):.3f}")
    cells.append(f"{fmean(run['psnr'] for run in runs):.1f} dB")
    for count in map(str, COUNTS):
        values = [run["rt"][count]["rt"] for run in runs if count in run["rt"]]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        cells.append(f"{fmean(values):.2f}{spread}" if values else "-")
    return cells


def _beside(measured: list[str], paper: dict[str, Any]) -> list[str]:
    """The cells under ``MEASURED_HEADER``, each with what the paper reports there, if anything."""
    published = [
        f"{paper['accuracy']:.3f}" if "accuracy" in paper else "",
        f"{paper['psnr']:.2f} dB" if "psnr" in paper else "",
    ]
    for count in map(str, COUNTS):
        rt = paper.get("rt", {}).get(count)
        published.append("" if rt is None else f"{rt:.3f}")
    if "rt" not in paper:
        published[2:] = ["training failure"] * len(COUNTS)
    pairs = zip(measured, published, strict=True)
    return [f"{ours} ({theirs})" if theirs else ours for ours, theirs in pairs]


def _training_speed_table(results: Path) -> str:
    """Pictures a second on the machine of the training factors, and what the time went into."""
    rows = []
    for system, changes in figures_in(results / "training-factors.json").items():
        for change, row in changes.items():
            for run in row["seeds"].values():
                if shares := run.get("seconds_share"):
                    spent = [f"{100 * shares.get(phase, 0):.1f} %" for phase in PHASES]
                    rows.append([system, change, f"{run['images_per_second']:.1f}", *spent])
    return table(["watermark", "changed", "pictures a second", *PHASES], rows)


def _filters_table(results: Path) -> str:
    return filters_summary(figures_in(results / "filters.json"))


def filters_summary(figures: dict[str, Any]) -> str:
    """ROC-AUC of each backbone on held-out pictures, with the paper's beside it."""
    names = {"convnext": "ConvNeXt", "resnet": "ResNet", "features": "frozen features + MLP"}
    rows = [
        [
            watermark,
            names[backbone],
            *(f"{100 * card['held_out_auc'][kind]:.2f} %" for kind in ("clean", "distorted")),
            str(card["photos"]["held_out"]),
            f"{100 * card['paper']:.2f} %" if card["paper"] else "-",
        ]
        for watermark, backbones in figures.items()
        for backbone, card in backbones.items()
    ]
    header = ["watermark", "backbone", "AUC, clean", "AUC, distorted", "pictures of a kind"]
    return table([*header, "paper (full width)"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "references": _references_table,
    "interventions": _interventions_table,
    "training-factors": _training_factors_table,
    "training-speed": _training_speed_table,
    "filters": _filters_table,
}
