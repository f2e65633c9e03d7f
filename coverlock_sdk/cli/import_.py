"""``coverlock import``"""

from __future__ import annotations

import json
from pathlib import Path

import click

from coverlock_sdk.cli.options import json_option
from coverlock_sdk.manager import plugin_manager


@click.command("import")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_(name: str, file: Path, as_json: bool) -> None:
    """Convert somebody else's checkpoint FILE into weights that NAME can load.

    Only weights are read; nothing in the file is executed.
    """
    written = plugin_manager().get("importer", name)(file)
    if as_json:
        click.echo(json.dumps({"name": name, "written": str(written)}))
    else:
        click.echo(f"{name} is in {written}")
