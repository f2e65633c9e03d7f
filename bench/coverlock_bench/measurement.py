"""One way to write a measuring command: options, a function, and a result file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from coverlock_bench.results import write_result
from coverlock_sdk.cli.options import json_option, together
from coverlock_sdk.loading import DEFAULT_HASH

Option = Callable[[Any], Any]
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

watermark_option = click.option(
    "-w", "--watermark", default="steganogan", show_default=True, help="NAME or NAME:OPTION=VALUE."
)
images_option = click.option(
    "--images",
    type=FOLDER,
    help="Folder of photos; without it, the six from 'coverlock fetch photos'.",
)
watermarks_option = click.option(
    "-w",
    "--watermark",
    "watermarks",
    multiple=True,
    required=True,
    help="NAME or NAME:OPTION=VALUE,... Repeatable.",
)
hash_option = click.option("--hash", default=DEFAULT_HASH, show_default=True, help="Image hash.")
seed_option = click.option(
    "--seed", default=0, show_default=True, help="Seed of everything that is drawn at random."
)
side_option = click.option(
    "--side", default=512, show_default=True, help="Side of the JPEG files, in pixels."
)
count_option = click.option(
    "--count", type=click.IntRange(2), show_default="all", help="How many photos to use."
)
out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file (JSON)."
)


def number_option(name: str, default: int, help: str | None = None) -> Option:
    """An option for a whole number of at least one."""
    return click.option(name, type=click.IntRange(1), default=default, show_default=True, help=help)


def work_option(name: str) -> Option:
    """An option for the file from which an interrupted run resumes."""
    return click.option(
        "--work",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path(f"runs/{name}.sqlite"),
        show_default=True,
        help="Measurements made so far; an interrupted run resumes there.",
    )


@dataclass(frozen=True)
class Measured:
    """The result of a measurement: settings and figures, and what people see of them."""

    config: dict[str, Any]
    figures: Any
    summary: str | None = None
    notes: tuple[str, ...] = ()
    """Lines for the standard error stream."""


Measure = Callable[..., Measured | Iterator[Measured]]


def measurement(command: str, *options: Option) -> Callable[[Measure], click.Command]:
    """Turn a function into a command with ``options`` that writes and prints its result.

    ``command`` is what users type after ``coverlock`` or ``python -m``. Each result of a generator
    overwrites the one before, so that an interrupted run leaves the latest.
    """

    def decorate(measure: Measure) -> click.Command:
        def run(out: Path, as_json: bool, **given: Any) -> None:
            answer = measure(**given)
            for found in [answer] if isinstance(answer, Measured) else answer:
                write_result(out, command, found.config, found.figures)
            if as_json:
                click.echo(json.dumps({"file": str(out), "figures": found.figures}, indent=2))
            else:
                click.echo(found.summary or json.dumps(found.figures, indent=2))
            for note in (*found.notes, f"result file: {out}"):
                click.echo(note, err=True)

        with_options = together(*options, out_option, json_option)
        return click.command(command.split()[-1], help=measure.__doc__)(with_options(run))

    return decorate
