"""``coverlock verify``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import VERDICT_COLUMNS, each, report
from coverlock_sdk.cli.chosen_messages import chosen_message, remembered_names
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_verifier, require_one
from coverlock_sdk.cli.options import (
    audit_option,
    json_option,
    message_options,
    refuse_idle,
    sources_argument,
    verifier_options,
)
from coverlock_sdk.cli.recording import evidence, recorded
from coverlock_sdk.cli.verification import make_job
from coverlock_sdk.cli.verify_many import verify_in_processes, verify_on_cluster
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.folders import Source, search


@click.command(epilog=HELP)
@sources_argument
@message_options
@verifier_options
@click.option("--workers", type=click.IntRange(1), help="Processes, with --bundle.")
@click.option(
    "--isolate/--no-isolate",
    default=None,
    help="Decode picture files, with --bundle, in processes that are killed if they take too much "
    "time or memory.  [default: with --workers and Ray]",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Ray verifies on a cluster, and takes Parquet and object stores too.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for Ray's results.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    help="Folder or URI that rows of Parquet may name pictures in, besides their own. Repeatable.",
)
@audit_option
@json_option
def verify(
    sources: tuple[str, ...],
    identifier: str | None,
    bits: str | None,
    workers: int | None,
    isolate: bool | None,
    engine: str,
    out: Path | None,
    roots: tuple[str, ...],
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Check whether pictures carry a message.

    SOURCES are files, folders or patterns. With --registry a picture is accepted if it carries --id
    or one of its serials, and is the picture that was marked so.
    """
    require_one(opening["watermark"], opening["bundle"])
    if opening["registry"] is not None and bits is not None:
        raise MessageError("a registry knows pictures by identifier: use --id instead of --bits")
    settings = {"isolate": isolate is not False, **opening}
    if engine == "ray":
        job = make_job(identifier, bits, needs_message=False, **settings)
        verify_on_cluster(job, sources, out, workers, roots, audit, as_json)
    refuse_idle("without --engine ray", "out", "roots")
    if workers or isolate:
        job = make_job(identifier, bits, **settings)
        verify_in_processes(job, sources, workers or 1, audit, as_json)
    with open_verifier(**opening) as verifier:
        message = chosen_message(verifier.bits, identifier, bits)
        book, registry = None, verifier.lock.registry
        if registry is not None:
            names = remembered_names(registry, identifier)
            book = None if names == [identifier] else verifier.lock.checked_book(names)

        def work(source: Source) -> dict[str, Any]:
            picture, about = evidence(source.path, audit)
            if book is None:
                return {**verifier.verify(picture, message).to_dict(), **about}
            return {**verifier.identify(picture, book).to_dict(), **about}

        found = search(sources)
        rows = recorded(each(found, work), audit, message, verifier)
        report(found, rows, VERDICT_COLUMNS, as_json)
