"""What answers requests: bundles, callers and registers, which a reload replaces together."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coverlock_plugins.service.access import Callers
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.identification import MessageBook
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.verifier.verifier import Verifier

if TYPE_CHECKING:
    from fastapi import FastAPI

    from coverlock_plugins.service.service import Service
    from coverlock_sdk.embedder import Embedder
    from coverlock_sdk.locking.registry import Registry


logger = logging.getLogger(__name__)

Routes = Callable[["FastAPI", "Service"], None]
"""Adds routes to a service, once for each of its processes; a ``CoverLockError`` if it cannot.

A route guards itself with ``Depends(service.allow(scope))``, hands its work on a picture to
``service.process``, and raises a ``RefusalError`` for every answer other than 200. A reload
replaces ``service.deployment``.
"""

Decode = Callable[[tuple[int, int] | None], Picture]
"""Gives a picture at a size."""


@dataclass(frozen=True)
class Finding:
    """What a deployment found in a picture; nobody is told of it until it is announced."""

    verifier: Verifier
    """Whose verdict it is."""
    verdict: Verdict
    label: Any = None
    """The registered identifier, where one was looked for and found."""

    def announce(self, source: dict[str, Any]) -> None:
        """Tell audit logs and plugins."""
        self.verifier.announce([self.verdict], Given(b""), source)


@dataclass(frozen=True)
class Deployment:
    """The bundles of a service, of which the first marks and all verify, and who may ask.

    A picture is accepted if any bundle accepts it. So that this happens to an unmarked picture no
    more often than with one bundle, each of several is opened at its part of the false-positive
    rate. All bundles are always asked, so the time of an answer does not tell which one accepts.
    """

    verifiers: tuple[Verifier, ...]
    callers: Callers | None = None
    books: tuple[MessageBook, ...] = ()
    """What ``/identify`` chooses from, for each verifier."""
    embedder: Embedder | None = None
    registry: Registry | None = None
    """Numbers and remembers the pictures that are marked."""
    routes: tuple[Routes, ...] = ()
    """What plugins add to the service, when it starts."""

    @property
    def first(self) -> Verifier:
        """The verifier of the bundle that marks."""
        return self.verifiers[0]

    def register(self, names: Sequence[str]) -> Deployment:
        """The same, with identifiers or serials to choose from."""
        books = tuple(verifier.lock.checked_book(names) for verifier in self.verifiers)
        return replace(self, books=books)

    def verify(self, decode: Decode, identifier: str) -> Finding:
        """Whether a picture carries ``identifier``."""
        return self._best(
            Finding(each, each.judge(decode(each.bundle.manifest.size), identifier))
            for each in self.verifiers
        )

    def identify(self, decode: Decode) -> Finding:
        """Which of the registered messages a picture carries, if any."""

        def found() -> Iterator[Finding]:
            for verifier, book in zip(self.verifiers, self.books, strict=True):
                answer = verifier.recognise(decode(verifier.bundle.manifest.size), book)
                yield Finding(verifier, answer.verdict, answer.label)

        return self._best(found())

    def _best(self, findings: Iterable[Finding]) -> Finding:
        """The one that is accepted, or else the most probable, as the verdict of all of them."""
        best = min(findings, key=lambda f: (not f.verdict.accepted, f.verdict.p_value))
        tries, verdict = len(self.verifiers), best.verdict
        if tries == 1:
            return best
        p_value = min(1.0, tries * verdict.p_value)
        return replace(best, verdict=replace(verdict, p_value=p_value, fpr=tries * verdict.fpr))

    def close(self) -> None:
        """Close the verifiers, which wait for calls in progress."""
        for verifier in self.verifiers:
            verifier.close()


class Current:
    """The deployment in use; one that was replaced is closed when nobody uses it any more."""

    def __init__(self, first: Deployment) -> None:
        self.deployment = first
        self._changed = threading.Condition()
        self._users = {id(first): 0}

    @contextlib.contextmanager
    def use(self) -> Iterator[Deployment]:
        """The deployment, which stays open meanwhile."""
        with self._changed:
            deployment = self.deployment
            self._users[id(deployment)] += 1
        try:
            yield deployment
        finally:
            with self._changed:
                self._users[id(deployment)] -= 1
                self._changed.notify_all()

    def replace(self, deployment: Deployment) -> None:
        """Use another one from now on, and close the one before as soon as it can be."""
        with self._changed:
            before, self.deployment = self.deployment, deployment
            self._users[id(deployment)] = 0
            self._changed.wait_for(lambda: self._users[id(before)] == 0)
            del self._users[id(before)]
        before.close()


FRESH_SECONDS = 1.0
"""How long an answer holds: strangers may ask, and must not keep the service busy with it."""
PATIENCE_SECONDS = 3.0


class Readiness:
    """Rehearses a request; one at a time, and not more often than once a second."""

    def __init__(self, pool: DecodingPool) -> None:
        self._pool = pool
        self._picture = _picture()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coverlock-ready")
        self._lock = asyncio.Lock()
        self._known: tuple[float, str | None] = (-FRESH_SECONDS, None)

    async def problem(self, current: Current) -> str | None:
        """What does not work, if anything: nothing that a stranger should not know."""
        async with self._lock:
            since, problem = self._known
            if time.monotonic() - since >= FRESH_SECONDS:
                loop = asyncio.get_running_loop()
                attempt = loop.run_in_executor(self._thread, self._rehearse, current)
                try:
                    problem = await asyncio.wait_for(attempt, PATIENCE_SECONDS)
                except asyncio.TimeoutError:
                    problem = "an answer takes too long"
                self._known = time.monotonic(), problem
            return problem

    def _rehearse(self, current: Current) -> str | None:
        step = "pictures cannot be decoded"
        try:
            with current.use() as deployment:
                for verifier in deployment.verifiers:
                    step = "pictures cannot be decoded"
                    size = verifier.bundle.manifest.size
                    pixels = self._pool.picture(self._picture, size, "readiness")
                    step = "pictures cannot be verified"
                    verifier.logits(pixels)
                step = "the audit log cannot be written"
                deployment.first.require_audit()
        except Exception:
            logger.exception("not ready: %s", step)
            return step
        return None

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False)


def _picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.effect_noise((64, 64), 40).save(file, format="PNG")
    return file.getvalue()
