"""``coverlock bench ...``: measurements whose results are files."""

from __future__ import annotations

import click

from coverlock_bench.auditing.security import security_command
from coverlock_bench.hashes.command import hash_command
from coverlock_bench.latency.command import latency


@click.group()
def bench() -> None:
    """Measure speed, security and hashes."""


for command in (security_command, hash_command, latency):
    bench.add_command(command)
