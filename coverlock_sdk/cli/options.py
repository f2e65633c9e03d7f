"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from coverlock_sdk.bundles.trust import ANYONE
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.picture import MAX_PIXELS, MOST_PIXELS
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.verifier.runtimes import AUTO

Command = TypeVar("Command", bound=Callable[..., Any])

Trusted = str | tuple[str, ...] | None
"""What ``--trust`` gives: files, or "any", or nothing."""


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator; ``--help`` shows them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def refuse_idle(where: str, *parameters: str) -> None:
    """Refuse those ``parameters`` of the running command that were given but do nothing here."""
    context = click.get_current_context()
    idle = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in parameters
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if idle:
        verb, them = ("does", "it") if len(idle) == 1 else ("do", "them")
        listed = ", ".join(idle[:-1]) + " and " * (len(idle) > 1) + idle[-1]
        raise CoverLockError(f"{listed} {verb} nothing {where}: leave {them} out")


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."
)
key_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path),
    help=f"Key file; otherwise the one {KEY_FILE_VARIABLE} names, if any.",
)


def _chosen_trust(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> Trusted:
    """What commands pass on as ``trust``: absolute paths, because others may open the bundle."""
    if ANYONE in given and len(given) > 1:
        raise click.UsageError(f"--trust {ANYONE} trusts everybody: leave out the others")
    if ANYONE in given:
        return ANYONE
    return tuple(str(Path(path).resolve()) for path in given) or None


trust_option = click.option(
    "--trust",
    multiple=True,
    callback=_chosen_trust,
    metavar="FILE",
    help="Public key, or trust file, whose signature the bundle must carry; 'any' for a bundle "
    "whose makers need no check. Repeatable.",
)
max_pixels_option = click.option(
    "--max-pixels",
    type=click.IntRange(1, MOST_PIXELS),
    default=MAX_PIXELS,
    show_default=True,
    help="Refuse larger pictures; memory and time grow with them.",
)
audit_option = click.option(
    "--audit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append every verdict to this file; 'coverlock check-log' checks it.",
)
registry_option = click.option(
    "--registry",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that numbers and remembers marked pictures; a picture must also be the one that was "
    "marked. Made by the first 'coverlock embed'.",
)
repository_option = click.option(
    "--repository",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder where manifests are kept.",
)
sources_argument = click.argument("sources", nargs=-1, required=True)
bundle_options = together(
    click.option("--runtime", default=AUTO, show_default=True, help="What runs the graph."),
    click.option("--precision", default="fp32", show_default=True, help="Precision of the graph."),
    click.option("--threads", type=click.IntRange(1), help="Threads of the runtime."),
    trust_option,
)
_hash_option = click.option(
    "--hash", help=f"Image hash, as NAME or NAME:OPTION=VALUE.  [default: {DEFAULT_HASH}]"
)
fpr_option = click.option(
    "--fpr", type=float, help=f"False-positive rate.  [default: {DEFAULT_FPR:g}]"
)
psnr_option = click.option(
    "--psnr",
    type=click.FloatRange(20, 60),
    help="Decibels that marked pictures should have.  [default: as the watermark has it]",
)
lock_options = together(
    click.option(
        "-w",
        "--watermark",
        required=True,
        help="Watermark plugin, as NAME or NAME:OPTION=VALUE,OPTION=VALUE.",
    ),
    _hash_option,
    key_option,
    fpr_option,
    max_pixels_option,
)
marker_options = together(
    click.option(
        "-w", "--watermark", help="Watermark plugin, as NAME or NAME:OPTION=VALUE,OPTION=VALUE."
    ),
    click.option(
        "--bundle",
        type=click.Path(path_type=Path),
        help="A deployed bundle instead, which needs no PyTorch.",
    ),
    _hash_option,
    key_option,
    fpr_option,
    max_pixels_option,
    click.option("--threads", type=click.IntRange(1), help="Threads of a bundle's runtime."),
    trust_option,
    psnr_option,
    registry_option,
)
"""What marks pictures, and how strongly."""

verifier_options = together(
    click.option(
        "-w", "--watermark", help="Watermark plugin, as NAME or NAME:OPTION=VALUE,OPTION=VALUE."
    ),
    click.option("--bundle", type=click.Path(path_type=Path), help="A deployed bundle instead."),
    _hash_option,
    key_option,
    click.option(
        "--fpr",
        type=float,
        help=f"False-positive rate.  [default: {DEFAULT_FPR:g}, or the bundle's]",
    ),
    registry_option,
    bundle_options,
    max_pixels_option,
)

message_options = together(
    click.option("--id", "identifier", help="Identifier that pictures carry."),
    click.option("--bits", help="The message itself, as a string of 0 and 1."),
)
"""The options that name a message; ``chosen_message`` takes their values."""

training_options = together(
    click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path)),
    click.option(
        "--run",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        help="Folder for checkpoints, curves and weights; an interrupted run goes on there.",
    ),
    click.option("--steps", type=click.IntRange(1), help="Optimisation steps."),
    click.option("--batch", type=click.IntRange(1), help="Pictures, or pairs, per step."),
    click.option("--seed", default=0, show_default=True),
)
"""The photos that something is trained on, where the run is kept, and its schedule."""

device_options = together(
    click.option("--bf16", is_flag=True, help="Compute networks in bfloat16."),
    click.option("--device", default="cpu", show_default=True, help="Where to train: cpu, cuda."),
)
"""Where, and in which precision, something is trained."""
