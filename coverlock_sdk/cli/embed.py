"""``coverlock embed``"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import report
from coverlock_sdk.cli.chosen_messages import message_source
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.marking import MarkingJob, Task, in_this_process, recorded
from coverlock_sdk.cli.options import (
    audit_option,
    json_option,
    marker_options,
    message_options,
    refuse_idle,
    sources_argument,
)
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.images.folders import Found, search
from coverlock_sdk.images.outputs import FORMATS, KEEP, make_writable, output_paths
from coverlock_sdk.scaling.pool import in_processes

COLUMNS = {
    "out": "marked picture",
    "serial": "serial",
    "psnr": "PSNR dB",
    "matches": "bits read",
    "p_value": "p",
    "done": "done",
}


@click.command(epilog=HELP)
@sources_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Output file, or folder for several pictures; beside the originals if not given.",
)
@message_options
@marker_options
@click.option(
    "--format",
    "file_format",
    type=click.Choice([*FORMATS, KEEP]),
    default="png",
    show_default=True,
    help="Format of marked pictures; 'keep' is that of each original.",
)
@click.option("--quality", type=click.IntRange(1, 100), help="Quality of lossy formats.")
@click.option("--resume", is_flag=True, help="Skip pictures that an earlier run has marked.")
@click.option("--overwrite", is_flag=True, help="Replace files even if they carry another message.")
@click.option("--workers", type=click.IntRange(1), help="Processes.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Ray marks on a cluster, whose nodes share the folders.",
)
@audit_option
@json_option
def embed(
    sources: tuple[str, ...],
    out: Path | None,
    identifier: str | None,
    bits: str | None,
    file_format: str,
    quality: int | None,
    resume: bool,
    overwrite: bool,
    workers: int | None,
    engine: str,
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Mark pictures and lock each mark to its picture.

    SOURCES are files, folders or patterns; pictures that this command wrote there before are not
    marked again. A marked picture that would not verify counts as rejected. A file that carries
    another message is not replaced. With --registry each picture carries a serial of --id, such as
    order-4711/000001, and is remembered; one that is much like an earlier one gets a warning.
    """
    _require_one(opening["watermark"], opening["bundle"])
    job = MarkingJob.of(opening, quality, resume, overwrite, audit is not None)
    with job.open() as marker:
        registry = marker.binder.lock.registry
        message_of = message_source(marker.bits, identifier, bits, registry, resume)
        found = search(sources)
        targets = output_paths(found.pictures, out, file_format)
        make_writable({target.parent for target in targets.values()})
        tasks = [
            Task.of(source.path, target, message_of(source.path), registry is not None)
            for source, target in targets.items()
        ]
        left = Found(list(targets), found.skipped)
        if not workers and engine == "local":
            rows = in_this_process(marker, job, tasks)
        else:
            rows = _engine(engine)(job, tasks, workers=workers or 1)
        message = list(bits) if bits else identifier
        report(left, recorded(marker, audit, message, rows), COLUMNS, as_json)


def _require_one(watermark: str | None, bundle: Path | None) -> None:
    if (watermark is None) == (bundle is None):
        raise CoverLockError("name either a watermark with --watermark or a bundle with --bundle")
    if bundle is None:
        refuse_idle("without --bundle", "trust", "threads")
    else:
        refuse_idle("with --bundle, which has its own", "hash", "fpr")


def _engine(name: str) -> Callable[..., Iterator[dict[str, Any]]]:
    if name == "local":
        return in_processes
    with needs("--engine ray", "Ray", "ray"):
        from coverlock_sdk.scaling.ray_actors import in_actors
    return in_actors
