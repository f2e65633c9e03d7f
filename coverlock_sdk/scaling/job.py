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
from coverlock_sdk.images.conversion import Given, read
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.images.picture import MAX_PIXELS, Picture
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
    max_pixels: int = MAX_PIXELS
    """Larger picture files are errors."""
    digests: bool = False
    """Whether rows tell the SHA-256 of picture files, for an audit log."""

    def open(self) -> OpenJob:
        """Open what a process needs: a verifier, and a process that decodes for it."""
        return OpenJob(self.verifier(), self.decoders())

    def decoders(self) -> DecodingPool:
        """One process, which decodes as fast as one verifier asks for pictures."""
        return DecodingPool(1, max_pixels=self.max_pixels)

    def verifier(self) -> Verifier:
        """Open a verifier for this process."""
        bundle, _ = self.checked()
        settings = Settings(
            self.precision,
            self.fpr,
            self.threads,
            max_batch=self.max_batch,
            max_pixels=self.max_pixels,
        )
        # No trust: the signature was checked just now.
        rights = {"key": self.key_file, "registry": self.registry}
        return Verifier.open(bundle, self.runtime, **rights, settings=settings)

    def alone(self) -> VerificationJob:
        """The job for one process of several."""
        return replace(self, threads=self.threads or 1)

    def died(self, item: str) -> Row:
        """The row of a file that no process survives."""
        return Prepared(item, None, f"a process died verifying {item}").row(None)

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
        opened = [self.prepare(i.file, size, worker.decoders, i.load, True) for i in items]
        return self.judge(worker.verifier, opened, [item.id for item in items])

    def prepare(
        self,
        file: str,
        size: tuple[int, int] | None,
        decoders: DecodingPool | None = None,
        load: Callable[[], str | bytes] | None = None,
        at_a_fraction: bool = False,
    ) -> Prepared:
        """Read a picture, from the path or content that ``load`` gives, at ``size`` unless None.

        A large JPEG may be decoded ``at_a_fraction`` of its size.
        """
        picture, error, digest = None, None, None
        decode = partial(_decoded, size=size, max_pixels=self.max_pixels, decoders=decoders)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                source = load() if load else file
                if self.digests:
                    source = _content(source)
                    digest = _digest(source)
                picture = decode(source, at_a_fraction=at_a_fraction)
            except CoverLockError as problem:
                error = _about(file, str(problem))
            except Exception as problem:  # decoders raise anything, and no picture may stop a job
                error = f"{file} cannot be read ({type(problem).__name__}: {problem})"
        whole = (
            partial(_whole, decode, load or partial(str, file)) if at_a_fraction and size else None
        )
        return Prepared(file, picture, error, tuple(str(w.message) for w in caught), whole, digest)

    def judge(
        self, verifier: Verifier, pictures: Sequence[Prepared], messages: Sequence[Any]
    ) -> list[Row]:
        """Rows for prepared ``pictures``, in their order."""
        good = [(p, m) for p, m in zip(pictures, messages, strict=True) if p.picture is not None]
        judged = iter(self._judge(verifier, good))
        return [p.row(None) if p.picture is None else next(judged) for p in pictures]

    def _judge(self, verifier: Verifier, good: Sequence[tuple[Prepared, Any]]) -> list[Row]:
        """Judge pictures together, or in halves until those that cannot be judged stand alone."""
        if not good:
            return []

        def whole(row: int) -> Any:
            picture, _ = good[row]
            return picture.whole() if picture.whole else picture.picture

        try:
            give = whole if any(p.whole for p, _ in good) else None
            given = Given([p.picture for p, _ in good], whole=give)
            verdicts = verifier.verify(given, [message for _, message in good])
        except CoverLockError as error:
            if len(good) == 1:
                picture, _ = good[0]
                return [replace(picture, error=f"{picture.file}: {error}").row(None)]
            middle = len(good) // 2
            return self._judge(verifier, good[:middle]) + self._judge(verifier, good[middle:])
        return [p.row(verdict) for (p, _), verdict in zip(good, verdicts, strict=True)]


@dataclass(frozen=True)
class Prepared:
    """A picture at the size of the graph, or the reason there is none."""

    file: str
    picture: Picture | None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    whole: Callable[[], Picture] | None = None
    """Reads the file again, where it may have been decoded at a fraction of its size."""
    digest: str | None = None
    """SHA-256 of the file, where it was asked for."""

    def row(self, verdict: Verdict | None) -> Row:
        """The report on this picture."""
        row: Row = {"file": self.file}
        if verdict is None:
            row |= {"status": "error", "error": self.error}
        else:
            status = "accepted" if verdict.accepted else "rejected"
            row |= {"status": status, **verdict.to_dict()}
        if self.digest is not None:
            row["sha256"] = self.digest
        return row | {"warnings": list(self.warnings)}


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


def _decoded(
    source: str | bytes,
    size: tuple[int, int] | None,
    max_pixels: int,
    decoders: DecodingPool | None,
    at_a_fraction: bool,
) -> Picture:
    if decoders is not None:
        return decoders.picture(_content(source), size, at_a_fraction=at_a_fraction)
    return read(source, max_pixels, size if at_a_fraction else None).resampled(size)


def _whole(decode: Callable[..., Picture], load: Callable[[], str | bytes]) -> Picture:
    return decode(load(), at_a_fraction=False)


def _about(file: str, problem: str) -> str:
    """The problem with a picture that came without its name."""
    if file in problem:
        return problem
    nameless = "the picture "
    if problem.startswith(nameless):
        return f"{file} {problem.removeprefix(nameless)}"
    return f"{file}: {problem}"


def _content(source: str | bytes) -> bytes:
    return read_file(source, MOST_FILE_BYTES) if isinstance(source, str) else source


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
