"""``coverlock ray``: pictures from folders, object stores and Parquet; results as Parquet."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from coverlock_sdk.cli import EXIT_CODES
from coverlock_sdk.cli.options import (
    fpr_option,
    json_option,
    key_option,
    path_option,
    registry_option,
    runtime_option,
    sources_argument,
    trust_option,
)
from coverlock_sdk.cli.output import answer, counted, finish
from coverlock_sdk.cli.verifying import open_job
from coverlock_sdk.errors import needs


@click.command(epilog=EXIT_CODES)
@sources_argument
@click.option("-o", "--out", required=True, help="Folder or object store for the results.")
@path_option("--bundle", required=True, help="Exported bundle.")
@click.option("--id", "identifier", help="Identifier that the pictures carry.")
@key_option
@fpr_option
@registry_option
@runtime_option
@trust_option
@click.option(
    "--workers", type=click.IntRange(1), show_default="all cores but one", help="Number of actors."
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    help="Another folder or URI whose pictures Parquet rows may name. Repeatable.",
)
@json_option
def ray(
    sources: tuple[str, ...],
    out: str,
    identifier: str | None,
    workers: int | None,
    roots: tuple[str, ...],
    as_json: bool,
    **opening: Any,
) -> None:
    """Verify pictures on a Ray cluster.

    SOURCES are files, folders, URIs of object stores, and Parquet with a column 'path' or 'bytes'.
    Without --id, a column 'id' names the identifier of each picture. Run the same command again to
    go on where it was stopped.
    """
    job = open_job(identifier, **opening)
    with needs("this command", "Ray", "ray"):
        from coverlock_plugins.ray_cluster.actors import verify_on_ray
    with contextlib.redirect_stdout(sys.stderr):  # Ray prints there when a worker dies
        counts = verify_on_ray(job, sources, out, workers, roots)
    document = {"results": out, "counts": counts}
    answer(document, as_json, counted(counts), f"results are in {out}")
    finish(counts)
