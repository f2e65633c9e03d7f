"""From a watermark and a hash to a deployable bundle.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

import click

from coverlock_sdk.hookspecs import hookimpl


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock export``, and what is done with bundles afterwards."""
    from coverlock_export.compile_command import compile_command
    from coverlock_export.export_command import export

    cli.add_command(export)
    cli.add_command(compile_command)
