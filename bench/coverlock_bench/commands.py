"""``coverlock bench ...``: measurements whose results are files."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import click

from coverlock_bench.adaptive.command import adaptive
from coverlock_bench.auditing.security import security_command
from coverlock_bench.bridges.commands import omniseal_cards
from coverlock_bench.deployment.commands import (
    large_verdicts,
    overhead,
    parity,
    scaling,
    service,
    siege,
    throughput,
)
from coverlock_bench.deployment.latency_command import latency
from coverlock_bench.hashes.commands import calibration, hash_command
from coverlock_bench.provenance.commands import alterations_command, fuzzing
from coverlock_sdk.errors import CoverLockError

DRAWERS = {
    "bench hash": "coverlock_bench.hashes.hash_picture:draw_hashes",
    "bench calibration": "coverlock_bench.hashes.calibration_picture:draw_calibration",
    "bench security": "coverlock_bench.auditing.figures:draw_tradeoff",
}
"""What draws the result files of a command: a module, loaded when it is needed, and a function."""


@click.group()
def bench() -> None:
    """Measure: every result is a file that says how it was made."""


for command in (
    security_command,
    hash_command,
    calibration,
    adaptive,
    alterations_command,
    fuzzing,
    parity,
    overhead,
    latency,
    service,
    siege,
    scaling,
    throughput,
    large_verdicts,
    omniseal_cards,
):
    bench.add_command(command)


@bench.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
def draw(result: Path, picture: Path) -> None:
    """Draw the figures of a RESULT file to a PICTURE (PNG, PDF or SVG)."""
    document = json.loads(result.read_text())
    command = document.get("command")
    if command not in DRAWERS:
        raise CoverLockError(f"there is no picture for '{command}': only for {', '.join(DRAWERS)}")
    module, _, function = DRAWERS[command].partition(":")
    getattr(import_module(module), function)(document["figures"], picture)
