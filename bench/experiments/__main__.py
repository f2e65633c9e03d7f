"""``python -m experiments NAME``: every study by its name."""

from __future__ import annotations

from pkgutil import resolve_name

import click

from coverlock_sdk.cli import CoverLockGroup

STUDIES = {
    "evidence": "experiments.evidence:evidence",
    "headline": "experiments.headline:headline",
    "transferability": "experiments.transferability:transferability_command",
    "white-box": "experiments.white_box:white_box_command",
    "forgers": "experiments.forgers:forgers",
    "walkers": "experiments.walkers:walkers",
    "head": "experiments.head:head",
    "deployed": "experiments.deployed:deployed",
    "speed": "experiments.speed:speed",
    "key-learners": "experiments.key_learners:key_learners",
    "interventions": "experiments.interventions:interventions_command",
    "training-factors": "experiments.training_factors:training_factors_command",
    "standing": "experiments.standing:standing_command",
    "calibration": "experiments.calibration:calibration_command",
    "service": "experiments.service:service_command",
    "scale": "experiments.scale:scale",
    "siege": "experiments.siege:siege_command",
    "kinds": "experiments.kinds.compare:kinds_command",
    "draw": "experiments.kinds.draw:draw_command",
    "filter": "experiments.filter:filter_command",
    "octave": "experiments.octave:octave_command",
    "tables": "experiments.tables:tables_command",
}
"""The name of each study, and where its command is."""


class Studies(CoverLockGroup):
    """Loads a study when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the list."""
        return list(STUDIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one study."""
        place = STUDIES.get(cmd_name)
        return resolve_name(place) if place else None


studies = Studies(name="experiments", help="Make the published figures; one command per study.")

if __name__ == "__main__":
    studies(prog_name="python -m experiments")
