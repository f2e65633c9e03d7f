"""``coverlock train templates``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.loading import DEFAULT_HASH, load_hash
from coverlock_sdk.named_options import parse_setting
from coverlock_sdk.training.templates import ENOUGH, Told, examples_in, learn_templates

ALIKE = 0.66
"""The agreement of two pictures above which a lock lets forgeries between them pass."""


@click.command("templates")
@click.argument("examples", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--hash", default=DEFAULT_HASH, show_default=True, help="NAME or NAME:OPTION=VALUE.")
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
    name, options = parse_setting(hash)
    templates, told = learn_templates(load_hash(name, **options), examples_in(examples))
    templates.save(out)
    click.echo(f"wrote {out}: use it as --hash templates:file={out}")
    for template in told:
        click.echo(f"{template.name}: {_sentence(template)}")
        for warning in _warnings(template):
            click.echo(f"warning: {template.name}: {warning}", err=True)


def _sentence(told: Told) -> str:
    return (
        f"two of {told.examples} examples agreed in {told.before:.0%} of bits, now in "
        f"{told.after:.0%}"
    )


def _warnings(told: Told) -> list[str]:
    warnings = []
    if told.examples < ENOUGH:
        warnings.append(f"give {ENOUGH} examples or more, so that their mean is that of others too")
    if told.after > ALIKE:
        warnings.append("these pictures still look alike to the hash, and forgeries may pass")
    return warnings
