"""One way to write a ``coverlock bench`` command: options, a function, and a result file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from coverlock_bench.results import write_result
from coverlock_sdk.cli.options import json_option, together
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR

Option = Callable[[Any], Any]
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

watermark_option = click.option(
    "-w", "--watermark", default="steganogan", show_default=True, help="NAME or NAME:OPTION=VALUE."
)
images_option = click.option(
    "--images",
    type=FOLDER,
    help="Folder of photos; otherwise the six of 'coverlock fetch photos'.",
)
OPTIONS: dict[str, Option] = {
    "watermark": watermark_option,
    "watermarks": click.option(
        "-w",
        "--watermark",
        "watermarks",
        multiple=True,
        required=True,
        help="NAME or NAME:OPTION=VALUE,... May be repeated.",
    ),
    "images": images_option,
    "hash": click.option("--hash", default=DEFAULT_HASH, show_default=True),
    "held_out": click.option(
        "--held-out", is_flag=True, help="Only photos that training leaves out."
    ),
    "fpr": click.option("--fpr", default=DEFAULT_FPR, show_default=True),
    "seed": click.option("--seed", default=0, show_default=True),
    "only": click.option("--only", multiple=True, help="A row of the table; may be repeated."),
    "out": click.option(
        "-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file (JSON)."
    ),
    "picture": click.option(
        "--picture",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Draw the figures to this file (PNG, PDF or SVG).",
    ),
    "keep": click.option(
        "--keep",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Result file whose other figures stay in the new one.",
    ),
    "bundle": click.argument("bundle", type=FOLDER),
    "runtime": click.option("--runtime", default="cpu", show_default=True),
    "side": click.option(
        "--side", default=512, show_default=True, help="Of the JPEG files, in pixels."
    ),
}
"""Options that several measurements share, by the name of their parameter."""


def hashes_option(*default: str) -> Option:
    """Several hashes, by default these; without any default, all that are installed."""
    among = "May be repeated." if default else "May be repeated; otherwise all that are installed."
    return click.option("--hash", "hashes", multiple=True, default=default or None, help=among)


def number_option(name: str, default: int, help: str | None = None) -> Option:
    """A whole number from one on."""
    return click.option(name, type=click.IntRange(1), default=default, show_default=True, help=help)


def count_option(default: int | None = None, help: str = "How many photos to use.") -> Option:
    """A number of pictures; without a default, all there are, and at least two."""
    if default:
        return number_option("--count", default, help)
    return click.option("--count", type=click.IntRange(2), help=f"{help[:-1]}; otherwise all.")


def work_option(name: str) -> Option:
    """The file in which a run that was interrupted finds what it has measured."""
    return click.option(
        "--work",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path(f"runs/{name}.sqlite"),
        show_default=True,
        help="Measurements made so far; an interrupted run goes on there.",
    )


def kept(keep: Path | None, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """The figures of an earlier result file, if there is one; of another ``config``, an error."""
    if keep is None:
        return {}
    document = json.loads(keep.read_text())
    if config is not None and document["config"] != json.loads(json.dumps(config)):
        raise CoverLockError(
            f"{keep} was measured with {document['config']}, not with {config}: its figures cannot "
            "stay beside the new ones"
        )
    figures: dict[str, Any] = document["figures"]
    return figures


@dataclass(frozen=True)
class Measured:
    """What a measurement found: its settings and figures, and what people read of them."""

    config: dict[str, Any]
    figures: Any
    summary: str | None = None
    notes: tuple[str, ...] = ()
    """Lines for the standard error stream."""


Measure = Callable[..., Measured | Iterator[Measured]]


def measurement(name: str, shared: str, *options: Option) -> Callable[[Measure], click.Command]:
    """Make a function the command ``bench NAME``; what it returns is written and printed.

    ``shared`` names options that other commands have too; ``options`` are its own. The results of
    a generator are written one over the other, so that an interrupted run leaves one.
    """

    def decorate(measure: Measure) -> click.Command:
        def run(out: Path, as_json: bool, **given: Any) -> None:
            answer = measure(**given)
            for found in [answer] if isinstance(answer, Measured) else answer:
                write_result(out, f"bench {name}", found.config, found.figures)
            if as_json:
                click.echo(json.dumps({"file": str(out), "figures": found.figures}, indent=2))
            else:
                click.echo(found.summary or json.dumps(found.figures, indent=2))
            for note in (*found.notes, f"result file: {out}"):
                click.echo(note, err=True)

        usual = [OPTIONS[each] for each in shared.split()]
        with_options = together(*usual, *options, OPTIONS["out"], json_option)
        return click.command(name, help=measure.__doc__)(with_options(run))

    return decorate
