"""Options that several commands share, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from coverlock_sdk.errors import MessageError
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, wrap
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE, Keyring, keyring_from_environment
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.verifier.runtimes import AUTO

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which help lists them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."
)
key_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path),
    help=f"Key file; otherwise the one {KEY_FILE_VARIABLE} names, if any.",
)
trust_option = click.option(
    "--trust",
    type=click.Path(path_type=Path),
    help="Public key whose signature the bundle must carry.",
)
rule_option = click.option(
    "--rule", type=click.Choice(RULES), help="How matching bits are weighed."
)

lock_options = together(
    click.option("-w", "--watermark", required=True, help="Name of a watermark plugin."),
    click.option("--hash", default=DEFAULT_HASH, show_default=True, help="Image hash."),
    key_option,
    click.option("--fpr", default=DEFAULT_FPR, show_default=True, help="False-positive rate."),
    rule_option,
)
"""The options that describe a lock; ``open_lock`` takes their values."""

bundle_options = together(
    click.option("--runtime", default=AUTO, show_default=True, help="What runs the graph."),
    click.option("--precision", default="fp32", show_default=True),
    click.option("--threads", type=click.IntRange(1), help="Of the runtime."),
    trust_option,
)
"""The options that say how a bundle is opened."""

message_options = together(
    click.option("--id", "identifier", help="Identifier; its codeword is the message."),
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


def open_lock(
    watermark: str,
    hash: str,
    key_file: Path | None,
    fpr: float,
    rule: Any,
    harden: bool = False,
) -> LockedWatermark:
    """The lock that ``lock_options`` describe."""
    keyring = chosen_keyring(key_file)
    return wrap(watermark, hash=hash, key=keyring, fpr=fpr, rule=rule, harden=harden)


def chosen_keyring(key_file: Path | None) -> Keyring | None:
    """The keys of ``key_file``, or of the file that the environment names, if any."""
    return Keyring.load(key_file) if key_file else keyring_from_environment()


def chosen_message(length: int, identifier: str | None, bits: str | None) -> Any:
    """The message that ``message_options`` describe: a string is an identifier."""
    if (identifier is None) == (bits is None):
        raise MessageError("name the message by either --id or --bits")
    if identifier is not None:
        return identifier
    message: np.ndarray[Any, Any] = as_bits(bits, 1, length)[0]
    return message
