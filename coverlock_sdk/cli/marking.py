"""``coverlock embed``: one picture file after the other, here or in other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import click

from coverlock_sdk.bundles.signing import ANYONE
from coverlock_sdk.cli import EXIT_CODES
from coverlock_sdk.cli.options import (
    audit_option,
    bundle_option,
    chosen_keyring,
    identifier_option,
    json_option,
    key_option,
    open_lock,
    path_option,
    psnr_option,
    registry_option,
    require_one,
    sources_argument,
    trust_option,
    watermark_option,
    workers_option,
)
from coverlock_sdk.cli.output import Row, logged, report, row_of
from coverlock_sdk.embedder import Embedder
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.folders import (
    FORMATS,
    KEEP,
    FoundPictures,
    make_writable,
    output_paths,
    search,
)
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.scaling.pool import in_processes

COLUMNS = {
    "out": "marked picture",
    "serial": "serial",
    "psnr": "PSNR dB",
    "p_value": "reads as",
    "done": "done",
}

Marker = LockedWatermark | Embedder


class Task(NamedTuple):
    """A picture file, where it goes, and what it is to carry."""

    source: Path
    target: Path
    message: str
    serial: bool
    """Whether the message is a serial, which a registry issued for this picture."""

    def __str__(self) -> str:
        return str(self.source)


@dataclass(frozen=True)
class MarkingJob:
    """How pictures are marked: with a watermark, or with a bundle."""

    opening: Mapping[str, Any]
    """Options of the command line; a key travels as the path of its file."""
    threads: int | None = None
    max_batch: int = 4

    def alone(self) -> MarkingJob:
        """The job for one process of several, which repeats no warning of this one."""
        opening = {**self.opening, "trust": self.opening["trust"] or ANYONE}
        return replace(self, opening=opening, threads=1)

    def open(self) -> AbstractContextManager[Marker]:
        """What marks: a bundle without PyTorch, or a plugin."""
        settings = {"threads": self.threads, **self.opening}
        watermark, bundle = settings.pop("watermark"), settings.pop("bundle")
        marker: Marker
        if bundle is None:
            del settings["trust"], settings["threads"]
            marker = open_lock(watermark, **settings)
        else:
            marker = Embedder.open(bundle, key=chosen_keyring(settings.pop("key_file")), **settings)
        return contextlib.nullcontext(marker)

    def check(self, worker: Marker, items: Sequence[Task]) -> list[Row]:
        """Mark picture files; one that cannot be marked does not stop the others."""
        return [row_of(str(task), partial(self._mark, worker, task)) for task in items]

    def _mark(self, marker: Marker, task: Task) -> Row:
        named: Row = {"out": str(task.target)}
        if task.serial:
            named["serial"] = task.message
        if task.target.exists():
            verdict = marker.carried(task.target, task.message)
            if not verdict.accepted:
                raise PictureError(
                    f"{task.target} exists and does not carry this message: remove it, or choose "
                    "another --out"
                )
            if _is_newer(task.target, task.source):
                return {**named, "done": "before", **_digest(task.target), **verdict.to_dict()}
        marked = marker.mark_file(task.source, task.message, task.target)
        if marked.alike is not None:
            named["alike"] = marked.alike[0]
        about = {"psnr": marked.psnr, **_digest(task.target)}
        return {**named, **about, **marked.verdict.to_dict()}


def _digest(target: Path) -> Row:
    return {"sha256": sha256(target.read_bytes()).hexdigest()}


@click.command(epilog=EXIT_CODES)
@sources_argument
@path_option(
    "-o",
    "--out",
    help="Output file, or folder for several pictures.",
    show_default="beside the originals",
)
@identifier_option
@watermark_option
@bundle_option
@key_option
@registry_option
@trust_option
@psnr_option
@click.option(
    "--format",
    "file_format",
    type=click.Choice([*FORMATS, KEEP]),
    default="png",
    help="Format of marked pictures; 'keep' keeps the format of each original.",
)
@workers_option
@audit_option
@json_option
def embed(
    sources: tuple[str, ...],
    out: Path | None,
    identifier: str,
    file_format: str,
    workers: int | None,
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Mark pictures and lock each mark to its picture.

    SOURCES are files, folders or patterns. A marked picture that would not verify counts as
    rejected. To resume after an interruption, run the same command again: it skips marked pictures
    that are newer than their originals. It never overwrites a file that carries a different
    message. With --registry, each picture gets its own serial under --id, such as
    order-4711/000001, and you are warned if it resembles an earlier picture.
    """
    require_one(opening["watermark"], opening["bundle"], "trust")
    opening["key_file"] = opening["key_file"] or os.environ.get(KEY_FILE_VARIABLE)
    for name in ("key_file", "bundle", "registry"):  # other processes work in other folders
        opening[name] = Path(opening[name]).resolve() if opening[name] else None
    job = MarkingJob(opening)
    with job.open() as marker:
        registry = marker.binder.lock.registry
        found = search(sources)
        targets = output_paths(found.pictures, out, file_format)
        make_writable({target.parent for target in targets.values()})
        tasks = []
        for source, target in targets.items():
            message = identifier
            if registry is not None:
                file = str(source.path)
                done = target.exists() and _is_newer(target, source.path)
                earlier = registry.issued(identifier, file) if done else None
                message = earlier or registry.issue(identifier, file)
            paths = source.path.absolute(), target.absolute()
            tasks.append(Task(*paths, message, registry is not None))
        rows: Iterator[Row] = (row for task in tasks for row in job.check(marker, [task]))
        if workers:
            rows = in_processes(job, tasks, workers)
        networks = marker.binder.networks
        version = marker.bundle.manifest.version if isinstance(marker, Embedder) else None
        hash_name = networks.hash.name if networks.hash else None
        rows = logged(rows, audit, identifier, networks.watermark.name, hash_name, version)
        report(FoundPictures(list(targets), found.skipped), rows, COLUMNS, as_json, marking=True)


def _is_newer(target: Path, source: Path) -> bool:
    """Whether a marked picture was written after its original."""
    return not source.exists() or target.stat().st_mtime_ns >= source.stat().st_mtime_ns
