"""From a watermark and a hash to a deployable bundle.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

import click

from coverlock_sdk import hookimpl


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock export``, and what is done with bundles afterwards."""
    from coverlock_export.commands import compile_command, export

    for command in (export, compile_command):
        cli.add_command(command)
