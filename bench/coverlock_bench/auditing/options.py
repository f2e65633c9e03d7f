"""Options that the audit and the security tables share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from coverlock_bench.auditing.assessment import Plan
from coverlock_bench.auditing.presets import PRESETS
from coverlock_sdk.cli.options import together
from coverlock_sdk.locking.coverlock import DEFAULT_FPR

PLUGINS = "NAME or NAME:OPTION=VALUE,... May be repeated; otherwise "
OPTIONS = together(
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        default="standard",
        show_default=True,
        help="How much is measured of a watermark: about a minute, about half an hour, or the "
        "paper's sizes.",
    ),
    click.option("-a", "--attack", "attacks", multiple=True, help=f"{PLUGINS}those of the preset."),
    click.option(
        "-d", "--defense", "defenses", multiple=True, help=f"{PLUGINS}the paper's, if installed."
    ),
    click.option(
        "--distortion",
        "distortions",
        multiple=True,
        help="NAME. May be repeated; otherwise the paper's six, and those of plugins.",
    ),
    click.option("--fpr", default=DEFAULT_FPR, show_default=True, help="False-positive rate."),
)


def planned(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what is measured; the command is given them as a ``plan``."""

    @wraps(command)
    def run(
        preset: str,
        attacks: tuple[str, ...],
        defenses: tuple[str, ...],
        distortions: tuple[str, ...],
        fpr: float,
        **others: Any,
    ) -> None:
        plan = Plan.of(PRESETS[preset], attacks, defenses, fpr, distortions)
        command(plan=plan, **others)

    return OPTIONS(run)
