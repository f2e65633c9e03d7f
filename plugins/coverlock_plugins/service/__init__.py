"""``coverlock serve``: verification, identification and marking over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coverlock_sdk import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock serve`` and ``coverlock token``"""
    from coverlock_plugins.service.commands import serve, token

    cli.add_command(serve)
    cli.add_command(token)
