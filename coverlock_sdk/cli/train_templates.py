"""``coverlock train templates``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.errors import CoverLockError, PictureError
from coverlock_sdk.hashing.template_hash import TemplateHash
from coverlock_sdk.images.folders import pictures_in
from coverlock_sdk.loading import DEFAULT_HASH, load_hash
from coverlock_sdk.training.templates import ENOUGH, Told, learn_templates

OFTEN = 0.05
"""The share of pairs that pass for one another above which a lock protects little."""


@click.command("templates")
@click.argument("examples", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--hash", default=DEFAULT_HASH, show_default=True)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file to write; use it as --hash templates:file=FILE.",
)
def train_templates(examples: Path, hash: str, out: Path) -> None:
    """Tell a hash the templates of your forms, cards or labels, so that it tells them apart.

    EXAMPLES holds pictures of one template, or a folder of pictures for each template: eight or
    more, filled in differently, not marked.
    """
    _require_usable(out)
    templates, told = learn_templates(load_hash(hash), examples_in(examples))
    templates.save(out)
    made = TemplateHash(out)
    click.echo(f"wrote {out}, the hash '{made.name}': use it as --hash templates:file={out}")
    for template in told:
        click.echo(f"{template.name}: {_sentence(template)}")
        for warning in _warnings(template):
            click.echo(f"warning: {template.name}: {warning}", err=True)


def _require_usable(out: Path) -> None:
    """Refuse a file that could not be written, or not be named in an option afterwards."""
    if "," in str(out):
        raise CoverLockError(f"options of --hash end at a comma: choose another name than {out}")
    if not out.parent.is_dir():
        raise CoverLockError(f"there is no folder {out.parent} to write {out.name} to: make it")
    if out.exists():
        raise CoverLockError(
            f"{out} exists, and pictures may have been marked with it: choose another --out"
        )


def examples_in(folder: Path) -> dict[str, list[Path]]:
    """Pictures by template: those of ``folder``, or those of each folder within it."""
    within = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = {path.name: _pictures(path) for path in within}
    templates = {name: paths for name, paths in found.items() if paths}
    here = _pictures(folder)
    if here and templates:
        raise PictureError(
            f"{folder} holds pictures and folders of pictures: give the pictures of one template, "
            "or a folder for each template"
        )
    if not here and not templates:
        raise PictureError(f"{folder} contains no pictures")
    return templates or {folder.resolve().name: here}


def _pictures(folder: Path) -> list[Path]:
    try:
        return pictures_in(folder, deep=False)
    except PictureError:  # none are there
        return []


def _sentence(told: Told) -> str:
    return (
        f"two of {told.examples} examples agreed in {told.before['mean']:.0%} of bits, and "
        f"{told.before['accepted_64']:.0%} of pairs would pass for one another; now "
        f"{told.after['mean']:.0%} and {told.after['accepted_64']:.0%}"
    )


def _warnings(told: Told) -> list[str]:
    warnings = []
    if told.examples < ENOUGH:
        warnings.append(f"give {ENOUGH} examples or more, so that their mean is that of others too")
    if told.after["accepted_64"] > OFTEN:
        warnings.append("some still look alike to the hash, and forgeries between those will pass")
    return warnings
