"""``coverlock fetch``"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from coverlock_sdk.cli.answers import answer, answer_table
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.models.assets import Fetchable
from coverlock_sdk.plugin_manager import plugin_manager


@click.command()
@click.argument("names", nargs=-1)
@json_option
def fetch(names: tuple[str, ...], as_json: bool) -> None:
    """Download the files that plugins need; without NAMES, list them.

    They land in your cache folder (or COVERLOCK_MODELS), and nothing is installed. Every file is
    checked against a pinned SHA-256.
    """
    manager = plugin_manager()
    chosen = [manager.get("asset", name) for name in names or manager.names("asset")]
    if names:
        fetched = {asset.name: str(_fetch(asset)) for asset in chosen}
        lines = (f"{a.name} is in {fetched[a.name]}: {a.description}" for a in chosen)
        answer(fetched, as_json, *lines)
        return
    answer_table(
        [{"name": a.name, "present": a.is_present, "description": a.description} for a in chosen],
        as_json,
        ("name", "fetched", "what it is"),
        [(a.name, "yes" if a.is_present else "no", a.description) for a in chosen],
    )


def _fetch(asset: Fetchable) -> Path:
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"fetching {asset.name}", total=None)
        return asset.fetch(lambda done, total: bar.update(task, completed=done, total=total))
