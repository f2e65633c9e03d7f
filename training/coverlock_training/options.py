"""Options that the training commands share."""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.options import together

training_options = together(
    click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path)),
    click.option(
        "--run",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        help="Folder for checkpoints, curves and weights; an interrupted run resumes there.",
    ),
    click.option("--steps", type=click.IntRange(1), help="Optimisation steps."),
    click.option("--batch", type=click.IntRange(1), help="Pictures, or pairs, per step."),
    click.option("--seed", default=0, show_default=True),
)
"""The photos that something is trained on, where the run is kept, and its schedule."""

device_options = together(
    click.option("--bf16", is_flag=True, help="Compute networks in bfloat16."),
    click.option("--device", default="cpu", show_default=True, help="Where to train: cpu, cuda."),
)
"""Where, and in which precision, something is trained."""
