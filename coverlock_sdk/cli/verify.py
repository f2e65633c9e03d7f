"""``coverlock verify``"""

from __future__ import annotations

from typing import Any

import click

from coverlock_sdk.cli.batch import Source, find_pictures, process
from coverlock_sdk.cli.options import (
    chosen_message,
    json_option,
    lock_options,
    message_options,
    open_lock,
)


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--accept-unlocked",
    is_flag=True,
    help="Also accept pictures marked before the lock was introduced.",
)
@message_options
@lock_options
@json_option
def verify(
    sources: tuple[str, ...],
    accept_unlocked: bool,
    identifier: str | None,
    bits: str | None,
    as_json: bool,
    **lock_settings: Any,
) -> None:
    """Say of pictures whether they carry a message.

    SOURCES are files, folders or patterns. The exit code is 0 when every picture is accepted,
    1 when some are rejected, 2 when some could not be processed.
    """
    lock = open_lock(**lock_settings)
    message = chosen_message(lock, identifier, bits)

    def work(source: Source) -> tuple[bool, dict[str, Any]]:
        verdict = lock.verify(source.path, message, accept_unlocked=accept_unlocked)
        return verdict.accepted, verdict.to_dict()

    columns = {"matches": "matches", "bits": "of", "p_value": "p", "key_id": "key"}
    process(find_pictures(sources), work, columns, as_json)
