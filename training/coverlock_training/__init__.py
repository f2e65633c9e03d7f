"""Training of hashes and watermarks, and what their runs share.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

import click

from coverlock_sdk.hookspecs import hookimpl


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock train ...`` and ``coverlock calibrate``"""
    from coverlock_training.calibrate_command import calibrate
    from coverlock_training.commands import train

    cli.add_command(train)
    cli.add_command(calibrate)
