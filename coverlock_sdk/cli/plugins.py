"""``coverlock plugins``"""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.markup import escape

from coverlock_sdk.cli.answers import answer_table
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.plugin_manager import Plugin, plugin_manager


@click.command()
@json_option
def plugins(as_json: bool) -> None:
    """List the plugins: where they come from, what they add, and why some were skipped."""
    found = plugin_manager().plugins
    answer_table(
        [asdict(plugin) for plugin in found],
        as_json,
        ("plugin", "package", "adds"),
        [(plugin.name, plugin.distribution, _adds(plugin)) for plugin in found],
    )


def _adds(plugin: Plugin) -> str:
    if plugin.failure:
        return f"[red]skipped:[/] {escape(plugin.failure)}"
    roles = sorted(plugin.registered.items())
    return "; ".join(f"{role}: {', '.join(names)}" for role, names in roles)
