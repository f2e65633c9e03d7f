"""What plugins offer and need: ``coverlock plugins``, ``fetch`` and ``import``."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from coverlock_sdk.cli.options import json_option
from coverlock_sdk.cli.output import answer, answer_table
from coverlock_sdk.errors import CoverLockError, LimitedWatermarkWarning, PluginError, needs
from coverlock_sdk.loading import parse_setting
from coverlock_sdk.models.assets import Fetchable
from coverlock_sdk.plugin_manager import plugin_manager


@click.command()
@json_option
def plugins(as_json: bool) -> None:
    """List the watermarks and hashes that work on this machine.

    Also shows what the others are missing, and why a plugin could not be loaded. --json also lists
    everything else that plugins add.
    """
    manager = plugin_manager()
    offers = [
        (name, role, manager.provider(role, name), *_opened(role, name))
        for role in ("watermark", "hash")
        for name in manager.names(role)
    ]
    headings = ("name", "role", "package", "missing", "limits")
    document = {
        "offers": [dict(zip(headings, offer, strict=True)) for offer in offers],
        "plugins": [asdict(plugin) for plugin in manager.plugins],
    }
    rows = [
        (name, role, package, f"no: {escape(missing)}" if missing else _yes(limits))
        for name, role, package, missing, limits in sorted(offers, key=lambda each: bool(each[3]))
    ]
    answer_table(document, as_json, ("name", "role", "package", "works here"), rows)
    for plugin in manager.plugins:
        if plugin.failure and not as_json:
            click.echo(f"skipped plugin '{plugin.name}' ({plugin.distribution}): {plugin.failure}")


def _opened(role: str, name: str) -> tuple[str | None, str | None]:
    """What a watermark or a hash lacks on this machine, and what it cannot do."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            plugin_manager().create(role, name, {})
        except CoverLockError as error:
            return str(error), None
    limits = [str(w.message) for w in caught if w.category is LimitedWatermarkWarning]
    return None, "; ".join(limits) or None


def _yes(limits: str | None) -> str:
    return "[green]yes[/]" + (f", but {escape(limits)}" if limits else "")


@click.command()
@click.argument("names", nargs=-1)
@json_option
def fetch(names: tuple[str, ...], as_json: bool) -> None:
    """Download the files that plugins need; without NAMES, list them.

    Files go to your cache folder (or $COVERLOCK_MODELS), and nothing is installed. Every file is
    checked against a pinned SHA-256.
    """
    manager = plugin_manager()
    chosen = [manager.get("asset", name) for name in names or manager.names("asset")]
    if names:
        verbs = {a.name: "was already in" if a.is_present else "is now in" for a in chosen}
        fetched = {asset.name: str(_fetch(asset)) for asset in chosen}
        lines = (f"{a.name} {verbs[a.name]} {fetched[a.name]}: {a.description}" for a in chosen)
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
    """Convert a published checkpoint into weights that NAME can load.

    Some checkpoints consist of more than one FILE. Only weights are read; nothing in them is
    executed. Settings that a checkpoint does not state are options of NAME, as in 'mbrs:bits=256'.
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
