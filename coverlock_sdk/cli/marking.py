"""``coverlock embed``: one picture file after the other, here or in other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    chosen_keyring,
    chosen_message,
    json_option,
    marker_options,
    message_options,
    open_lock,
    path_option,
    require_one,
    sources_argument,
    workers_option,
)
from coverlock_sdk.cli.output import Row, logged, report, row_of
from coverlock_sdk.embedder import Embedder
from coverlock_sdk.errors import MessageError, PictureError, needs
from coverlock_sdk.images.folders import FORMATS, KEEP, Found, make_writable, output_paths, search
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.scaling.pool import in_processes

COLUMNS = {
    "out": "marked picture",
    "serial": "serial",
    "psnr": "PSNR dB",
    "p_value": "reads as",
    "done": "done",
}
OF_LOCKS = ("watermark", "hash", "key_file", "fpr", "max_pixels", "psnr", "registry")
OF_BUNDLES = ("trust", "max_pixels", "psnr", "registry")

Marker = LockedWatermark | Embedder


class Task(NamedTuple):
    """A picture file, where it goes, and what it is to carry."""

    source: Path
    target: Path
    message: Any
    serial: bool


@dataclass(frozen=True)
class MarkingJob:
    """How pictures are marked: a watermark or a bundle, and what happens to files that exist."""

    opening: Mapping[str, Any]
    """Options of the command line; a key travels as the path of its file."""
    quality: int | None = None
    resume: bool = False
    overwrite: bool = False
    digests: bool = False
    """Whether rows hold the SHA-256 of marked pictures, for an audit log."""
    threads: int | None = None
    max_batch: int = 4

    def alone(self) -> MarkingJob:
        """The job for one process of several, which repeats no warning of this one."""
        opening = {**self.opening, "trust": self.opening["trust"] or ANYONE}
        return replace(self, opening=opening, threads=1)

    def open(self) -> AbstractContextManager[Marker]:
        """What marks: a bundle without PyTorch, or a plugin."""
        return contextlib.nullcontext(self._marker())

    def _marker(self) -> Marker:
        if self.opening["bundle"] is None:
            return open_lock(**{name: self.opening[name] for name in OF_LOCKS})
        keyring = chosen_keyring(self.opening["key_file"])
        settings = {name: self.opening[name] for name in OF_BUNDLES}
        return Embedder.open(self.opening["bundle"], key=keyring, threads=self.threads, **settings)

    def check(self, worker: Marker, items: Sequence[Task]) -> list[Row]:
        """Mark picture files; one that cannot be marked does not stop the others."""
        return [row_of(str(task.source), partial(self._mark, worker, task)) for task in items]

    def died(self, item: Task) -> Row:
        """The row of a file that no process survives."""
        error = f"a process died while marking {item.source}"
        return {"file": str(item.source), "status": "error", "error": error, "warnings": []}

    def _mark(self, marker: Marker, task: Task) -> Row:
        named: Row = {"serial": task.message} if task.serial else {}
        if task.target.exists() and not self.overwrite:
            verdict = marker.carried(task.target, task.message)
            if not verdict.accepted:
                raise PictureError(
                    f"{task.target} exists and does not carry this message: choose another --out, "
                    "or replace it with --overwrite"
                )
            if self.resume:
                done = {"out": str(task.target), "done": "before"}
                return {**done, **named, **self._digest(task.target), **verdict.to_dict()}
        marked = marker.mark_file(task.source, task.message, task.target, self.quality)
        if marked.alike is not None:
            named["alike"] = marked.alike[0]
        written = {"out": str(marked.picture), "psnr": marked.psnr, "rounds": marked.rounds}
        return {**written, **named, **self._digest(task.target), **marked.verdict.to_dict()}

    def _digest(self, target: Path) -> Row:
        return {"sha256": sha256(target.read_bytes()).hexdigest()} if self.digests else {}


@click.command(epilog=EXIT_CODES)
@sources_argument
@path_option(
    "-o",
    "--out",
    help="Output file, or folder for several pictures.",
    show_default="beside the originals",
)
@message_options
@marker_options
@click.option(
    "--format",
    "file_format",
    type=click.Choice([*FORMATS, KEEP]),
    default="png",
    help="Format of marked pictures; 'keep' uses that of each original.",
)
@click.option(
    "--quality",
    type=click.IntRange(1, 100),
    help="Quality for lossy formats.",
    show_default="95; AVIF 90",
)
@click.option("--resume", is_flag=True, help="Skip pictures that an earlier run has marked.")
@click.option("--overwrite", is_flag=True, help="Replace files even if they carry another message.")
@workers_option
@click.option("--ray", is_flag=True, help="Mark on a Ray cluster whose nodes share the folders.")
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
    ray: bool,
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Mark pictures and lock each mark to its picture.

    SOURCES are files, folders or patterns; marked pictures from an earlier run are not marked
    again. A marked picture that would not verify counts as rejected. With --registry, each picture
    gets a serial of --id, such as order-4711/000001, and you are warned if it resembles an earlier
    picture.
    """
    require_one(opening["watermark"], opening["bundle"], ("trust",), ("hash", "fpr"))
    opening["key_file"] = opening["key_file"] or os.environ.get(KEY_FILE_VARIABLE)
    for name in ("key_file", "bundle", "registry"):  # other processes work in other folders
        opening[name] = Path(opening[name]).resolve() if opening[name] else None
    job = MarkingJob(opening, quality, resume, overwrite, audit is not None)
    with job.open() as marker:
        registry = marker.binder.lock.registry
        message_of = _message_source(marker.bits, identifier, bits, registry, resume)
        found = search(sources)
        targets = output_paths(found.pictures, out, file_format)
        make_writable({target.parent for target in targets.values()})
        tasks = [
            Task(
                source.path.absolute(),
                target.absolute(),
                message_of(source.path),
                registry is not None,
            )
            for source, target in targets.items()
        ]
        rows: Iterator[Row]
        if workers or ray:
            rows = _engine(ray)(job, tasks, workers=workers or 1)
        else:
            rows = (row for task in tasks for row in job.check(marker, [task]))
        networks = marker.binder.networks
        version = marker.bundle.manifest.version if isinstance(marker, Embedder) else None
        hash_name = networks.hash.name if networks.hash else None
        message = list(bits) if bits else identifier
        rows = logged(rows, audit, message, networks.watermark.name, hash_name, version)
        report(Found(list(targets), found.skipped), rows, COLUMNS, as_json, marking=True)


def _message_source(
    length: int,
    identifier: str | None,
    bits: str | None,
    registry: Registry | None,
    resume: bool,
) -> Callable[[Path], Any]:
    """The message of each picture: the same for all, or with a registry a serial each.

    A resumed run gives pictures the serials that they had before.
    """
    message = chosen_message(length, identifier, bits)
    if registry is None:
        return lambda picture: message
    if identifier is None:
        raise MessageError("--registry numbers the pictures of an identifier: give one with --id")

    def serial(picture: Path) -> str:
        before = registry.issued(identifier, str(picture)) if resume else None
        return before or registry.issue(identifier, str(picture))

    return serial


def _engine(ray: bool) -> Callable[..., Iterator[Row]]:
    if not ray:
        return in_processes
    with needs("--ray", "Ray", "ray"):
        from coverlock_sdk.scaling.cluster import in_actors
    return in_actors
