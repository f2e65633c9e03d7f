"""``coverlock bench ...``: measurements whose results are files."""

from __future__ import annotations

import click

from coverlock_bench.auditing.security import security_command
from coverlock_bench.deployment.commands import latency, service, siege
from coverlock_bench.hashes.commands import calibration, hash_command


@click.group()
def bench() -> None:
    """Measure speed, security and hashes."""


for command in (security_command, hash_command, calibration, latency, service, siege):
    bench.add_command(command)
