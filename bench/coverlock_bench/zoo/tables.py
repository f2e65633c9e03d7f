"""Tables of the watermarks and classifiers that were trained here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from coverlock_bench.markdown import figures_in, table
from coverlock_bench.zoo.trained import COUNTS
from coverlock_sdk.distortions import EVALUATION

RT_HEADER = tuple(f"RT@{count}" for count in COUNTS)
TRAINED_HEADER = ("seeds", "images seen", "bits read", "PSNR", *RT_HEADER)


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
                f"{row['card']['images_seen']:,}",
                f"{held_out['bit_accuracy']:.3f}",
                f"{held_out['psnr_mean']:.1f} dB",
                *(f"{distorted[distortion]:.3f}" for distortion in EVALUATION),
                *(f"{row['rt'][n]['rt']:.3f}" if n in row["rt"] else "-" for n in map(str, COUNTS)),
            ]
        )
    header = ["watermark", "bits", "images seen", "bits read", "PSNR", *EVALUATION]
    return table([*header, *RT_HEADER], rows)


def _interventions_table(results: Path) -> str:
    return interventions_summary(figures_in(results / "interventions.json"))


def interventions_summary(figures: dict[str, Any]) -> str:
    """Each variant with its quality and RT, as the mean over seeds, beside the paper's RT."""
    rows = [
        [label.replace("-", " "), *_trained_cells(row), _paper_rt(row["paper"])]
        for label, row in figures["trained"].items()
    ]
    for label, row in figures["untrained"].items():
        rows.append([label.replace("-", " "), "0", *["-"] * 6, _paper_rt(row["paper"])])
    return table(["variant", *TRAINED_HEADER, "RT@100 in the paper"], rows)


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
    cells = [str(len(runs)), f"{runs[0]['images_seen']:,}"]
    cells.append(f"{fmean(run['bit_accuracy'] for run in runs):.3f}")
    cells.append(f"{fmean(run['psnr'] for run in runs):.1f} dB")
    for count in map(str, COUNTS):
        values = [run["rt"][count]["rt"] for run in runs if count in run["rt"]]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        cells.append(f"{fmean(values):.2f}{spread}" if values else "-")
    return cells


def _paper_rt(paper: dict[str, Any]) -> str:
    return f"{paper['rt']['100']:.2f}" if "rt" in paper else "training failure"


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
            f"{100 * card['paper']:.2f} %",
        ]
        for watermark, backbones in figures.items()
        for backbone, card in backbones.items()
    ]
    header = ["watermark", "backbone", "AUC, clean", "AUC, distorted", "pictures of a kind"]
    return table([*header, "paper (MBRS, full width)"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "references": _references_table,
    "interventions": _interventions_table,
    "training-factors": _training_factors_table,
    "filters": _filters_table,
}
