"""The work of ``coverlock embed``: one picture file after the other, here or in other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from coverlock_sdk.bundles.trust import ANYONE
from coverlock_sdk.cli.batch import Row, row_of
from coverlock_sdk.cli.opening import chosen_keyring, open_lock
from coverlock_sdk.cli.recording import logged
from coverlock_sdk.embedder.embedder import Embedder
from coverlock_sdk.errors import PictureError
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.locked_watermark import LockedWatermark

OF_LOCKS = ("watermark", "hash", "key_file", "fpr", "max_pixels", "psnr", "registry")
OF_BUNDLES = ("trust", "threads", "max_pixels", "psnr", "registry")


class Task(NamedTuple):
    """A picture file, where it goes, and what it is to carry."""

    source: Path
    target: Path
    message: Any
    serial: bool

    @classmethod
    def of(cls, source: Path, target: Path, message: Any, serial: bool) -> Task:
        """With paths that mean the same in other processes."""
        return cls(source.absolute(), target.absolute(), message, serial)


@dataclass(frozen=True)
class MarkingJob:
    """How pictures are marked: a watermark or a bundle, and what happens to files that exist."""

    opening: Mapping[str, Any]
    """Options of the command line; a key travels as the path of its file."""
    quality: int | None = None
    resume: bool = False
    overwrite: bool = False
    digests: bool = False
    """Whether rows tell the SHA-256 of marked pictures, for an audit log."""
    max_batch: int = 4

    @classmethod
    def of(
        cls,
        opening: Mapping[str, Any],
        quality: int | None,
        resume: bool,
        overwrite: bool,
        digests: bool,
    ) -> MarkingJob:
        """The job that options describe; the key file of the environment is one of them."""
        key_file = opening["key_file"] or os.environ.get(KEY_FILE_VARIABLE)
        paths = {"key_file": key_file, "bundle": opening["bundle"], "registry": opening["registry"]}
        resolved = {name: Path(path).resolve() if path else None for name, path in paths.items()}
        return cls({**opening, **resolved}, quality, resume, overwrite, digests)

    @property
    def threads(self) -> int | None:
        """Threads of ONNX Runtime."""
        threads: int | None = self.opening["threads"]
        return threads

    def alone(self) -> MarkingJob:
        """The job for one process of several, which need not warn of what this one warned of."""
        trust, threads = self.opening["trust"] or ANYONE, self.threads or 1
        return replace(self, opening={**self.opening, "threads": threads, "trust": trust})

    def open(self) -> AbstractContextManager[LockedWatermark | Embedder]:
        """What marks: a bundle without PyTorch, or a plugin."""
        return contextlib.nullcontext(self._marker())

    def _marker(self) -> LockedWatermark | Embedder:
        if self.opening["bundle"] is None:
            return open_lock(**_part(self.opening, OF_LOCKS))
        keyring = chosen_keyring(self.opening["key_file"])
        settings = _part(self.opening, OF_BUNDLES)
        return Embedder.open(self.opening["bundle"], key=keyring, **settings)

    def check(self, worker: LockedWatermark | Embedder, items: Sequence[Task]) -> list[Row]:
        """Mark picture files; one that cannot be marked does not stop the others."""
        return [row_of(str(task.source), partial(self._mark, worker, task)) for task in items]

    def died(self, item: Task) -> Row:
        """The row of a file that no process survives."""
        error = f"a process died marking {item.source}"
        return {"file": str(item.source), "status": "error", "error": error, "warnings": []}

    def _mark(self, marker: LockedWatermark | Embedder, task: Task) -> Row:
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


def in_this_process(
    marker: LockedWatermark | Embedder, job: MarkingJob, tasks: Iterable[Task]
) -> Iterator[Row]:
    """Do the job with a marker that is open."""
    return (row for task in tasks for row in job.check(marker, [task]))


def recorded(
    marker: LockedWatermark | Embedder, audit: Path | None, message: Any, rows: Iterable[Row]
) -> Iterator[Row]:
    """The same rows, each of which is in the audit log, if any, before anybody sees it."""
    networks = marker.binder.networks
    version = marker.bundle.manifest.version if isinstance(marker, Embedder) else None
    names = networks.watermark.name, networks.hash.name if networks.hash else None, version
    return logged(rows, audit, message, *names)


def _part(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: options[name] for name in names}
