"""Our own studies: they regenerate the paper's figures and the docs, and are not in the wheel."""

from __future__ import annotations

import click


def register_commands(bench: click.Group) -> None:
    """The studies' commands, beside those that vendors use."""
    from coverlock_bench.commands import DRAWERS
    from experiments.commands import COMMANDS

    for command in COMMANDS:
        bench.add_command(command)
    DRAWERS["bench interventions"] = "experiments.intervention_picture:draw_interventions"
