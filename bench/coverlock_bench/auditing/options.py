"""Options that the audit and the security tables share."""

from __future__ import annotations

import click

from coverlock_bench.auditing.presets import PRESETS
from coverlock_sdk.cli.options import together
from coverlock_sdk.locking.coverlock import DEFAULT_FPR

plan_options = together(
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        default="standard",
        show_default=True,
        help="How much is measured of a watermark: about a minute, about half an hour, "
        "or the paper's sizes.",
    ),
    click.option(
        "-a",
        "--attack",
        "attacks",
        multiple=True,
        help="NAME or NAME:OPTION=VALUE,... May be repeated; otherwise those of the preset.",
    ),
    click.option(
        "-d",
        "--defense",
        "defenses",
        multiple=True,
        help="NAME or NAME:OPTION=VALUE,... May be repeated; otherwise the paper's, if installed.",
    ),
    click.option("--fpr", default=DEFAULT_FPR, show_default=True, help="False-positive rate."),
)
"""The options that say what is measured; ``Plan.of`` takes their values."""
