"""``coverlock ray``: verification of millions of pictures on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coverlock_sdk import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock ray``"""
    from coverlock_plugins.ray_cluster.command import ray

    cli.add_command(ray)
