"""``coverlock plugins``"""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from coverlock_sdk.cli.options import json_option
from coverlock_sdk.plugin_manager import plugin_manager


@click.command()
@json_option
def plugins(as_json: bool) -> None:
    """Show which plugins are loaded, from where, what they add, and which failed and why."""
    found = plugin_manager().plugins
    if as_json:
        click.echo(json.dumps([asdict(plugin) for plugin in found], indent=2))
        return
    table = Table("plugin", "package", "adds")
    for plugin in found:
        adds = "; ".join(
            f"{role}: {', '.join(names)}" for role, names in sorted(plugin.registered.items())
        )
        problem = f"[red]skipped:[/] {plugin.failure}"
        table.add_row(plugin.name, plugin.distribution, problem if plugin.failure else adds)
    Console().print(table)
