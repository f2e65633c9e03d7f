"""``coverlock import``"""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import PluginError, needs
from coverlock_sdk.named_options import parse_setting
from coverlock_sdk.plugin_manager import plugin_manager


@click.command("import")
@click.argument("name")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@json_option
def import_(name: str, files: tuple[Path, ...], as_json: bool) -> None:
    """Convert somebody else's checkpoint into weights that NAME can load.

    Some are published as more than one FILE. Only weights are read; nothing in them is executed.
    What a checkpoint does not tell is an option of NAME, as in 'mbrs:bits=256'.
    """
    name, options = parse_setting(name)
    convert = plugin_manager().get("importer", name)
    try:
        inspect.signature(convert).bind(files[0], **options)
    except TypeError as error:
        raise PluginError(f"the importer '{name}' cannot take {options}: {error}") from None
    with needs(f"converting '{name}'", None, "torch"):
        written = dict.fromkeys(str(convert(file, **options)) for file in files)
    document = {"name": name, "written": list(written)}
    answer(document, as_json, f"{name} is in {' and '.join(written)}")
