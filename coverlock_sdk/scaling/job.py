"""What a process needs to know to take part in verifying many pictures.

A job holds paths and plain values only, so that it can be sent to other processes: a key travels
as the path of its file and never as a secret.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.bundle_lock import bundle_lock
from coverlock_sdk.documents import read_file
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.verifier.verifier import Settings, Verifier

MOST_FILE_BYTES = 1_000_000_000

Row = dict[str, Any]
"""What is reported of one picture: file, status (accepted, rejected or error), and the details."""


class Item(NamedTuple):
    """A picture by name, and the identifier to look for in it."""

    file: str
    id: str | None
    load: Callable[[], str | bytes]
    """Gives the path of the picture's file, or its content."""


@dataclass(frozen=True)
class VerificationJob:
    """A bundle, how to open it, and the message to look for."""

    bundle: str
    message: str | None = None
    """An identifier; None where each picture comes with an identifier of its own."""
    key_file: str | None = None
    trust: str | tuple[str, ...] | None = None
    """Files of public keys, of which one must have signed; "any" is everybody."""
    runtime: str = "auto"
    precision: str = "fp32"
    fpr: float | None = None
    registry: str | None = None
    """File that remembers what was marked; every process has to reach it."""
    threads: int | None = None
    max_batch: int = 32
    digests: bool = False
    """Whether rows tell the SHA-256 of picture files, for an audit log."""

    def alone(self) -> VerificationJob:
        """The job for one process of several."""
        return replace(self, threads=self.threads or 1)

    def open(self) -> OpenJob:
        """Open what a process needs: a verifier, and a process that decodes for it."""
        bundle, _ = self.checked()
        settings = Settings(self.precision, self.fpr, self.threads, self.max_batch)
        # No trust: the signature was checked just now.
        rights = {"key": self.key_file, "registry": self.registry}
        verifier = Verifier.open(bundle, self.runtime, **rights, settings=settings)
        return OpenJob(verifier, DecodingPool(1))

    def checked(self) -> tuple[Bundle, Lock]:
        """The bundle and its lock, after checking that bundle, keys and message fit together.

        This needs no runtime, so any machine can report what is wrong with a job.
        """
        bundle = Bundle.open(self.bundle, self.trust)
        lock = bundle_lock(bundle, self.key_file, self.fpr, self.registry)
        if self.message is not None:
            [message] = lock.messages(self.message, 1)
            lock.terms(message, lock.keys[0])
        return bundle, lock

    def check(self, worker: OpenJob, items: Sequence[str]) -> list[Row]:
        """Verify picture files together; one that cannot be read does not stop the others."""
        return self.check_items(
            worker, [Item(file, self.message, partial(str, file)) for file in items]
        )

    def check_items(self, worker: OpenJob, items: Sequence[Item]) -> list[Row]:
        """Verify pictures together, wherever they come from."""
        size = worker.verifier.bundle.manifest.size
        opened = [prepare(item, size, worker.decoders, self.digests) for item in items]
        judged = iter(worker.judge([each for each in opened if each.picture is not None]))
        return [each.row(None) if each.picture is None else next(judged) for each in opened]


class OpenJob:
    """What a process works with; it is closed as a whole."""

    def __init__(self, verifier: Verifier, decoders: DecodingPool) -> None:
        self.verifier = verifier
        self.decoders = decoders

    def __enter__(self) -> OpenJob:
        return self

    def __exit__(self, *error: object) -> None:
        self.verifier.close()
        self.decoders.close()

    def judge(self, good: Sequence[Prepared]) -> list[Row]:
        """Judge pictures together, or in halves until those that cannot be judged stand alone."""
        if not good:
            return []

        def whole(row: int) -> Picture:
            content = _content(good[row].item)
            return self.decoders.picture(content, self.verifier.bundle.manifest.size)

        pictures, messages = [each.picture for each in good], [each.item.id for each in good]
        try:
            verdicts = self.verifier.verify(Given(pictures, whole=whole), messages)
        except CoverLockError as error:
            if len(good) == 1:
                return [replace(good[0], error=f"{good[0].item.file}: {error}").row(None)]
            middle = len(good) // 2
            return self.judge(good[:middle]) + self.judge(good[middle:])
        return [each.row(verdict) for each, verdict in zip(good, verdicts, strict=True)]


@dataclass(frozen=True)
class Prepared:
    """A picture at the size of the graph, or the reason there is none."""

    item: Item
    picture: Picture | None
    error: str | None
    warnings: tuple[str, ...]
    digest: str | None
    """SHA-256 of the file, where it was asked for."""

    def row(self, verdict: Verdict | None) -> Row:
        """The report on this picture."""
        row: Row = {"file": self.item.file}
        if verdict is None:
            row |= {"status": "error", "error": self.error}
        else:
            status = "accepted" if verdict.accepted else "rejected"
            row |= {"status": status, **verdict.to_dict()}
        if self.digest is not None:
            row["sha256"] = self.digest
        return row | {"warnings": list(self.warnings)}


def prepare(
    item: Item, size: tuple[int, int] | None, decoders: DecodingPool, digests: bool = False
) -> Prepared:
    """Read a picture at ``size`` unless None; a large JPEG is decoded at a fraction of its own."""
    picture, error, digest = None, None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            content = _content(item)
            digest = hashlib.sha256(content).hexdigest() if digests else None
            picture = decoders.picture(content, size, at_a_fraction=True)
        except CoverLockError as problem:
            error = _about(item.file, str(problem))
        except Exception as problem:  # decoders raise anything, and no picture may stop a job
            error = f"{item.file} cannot be read ({type(problem).__name__}: {problem})"
    return Prepared(item, picture, error, tuple(str(w.message) for w in caught), digest)


def _content(item: Item) -> bytes:
    source = item.load()
    return read_file(source, MOST_FILE_BYTES) if isinstance(source, str) else source


def _about(file: str, problem: str) -> str:
    """The problem with a picture that came without its name."""
    if file in problem:
        return problem
    named = problem.replace("the picture ", f"{file} ", 1)
    return named if named != problem else f"{file}: {problem}"
