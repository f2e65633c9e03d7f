"""What answers requests: bundles, callers and registers, which a reload replaces together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coverlock_sdk.arrays import Pixels
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.serving.access import Callers
from coverlock_sdk.serving.tracing import span
from coverlock_sdk.verifier.verifier import Verifier

if TYPE_CHECKING:
    from coverlock_sdk.embedder.embedder import Embedder
    from coverlock_sdk.locking.registry import Registry
    from coverlock_sdk.provenance.resolving import Resolver

Decode = Callable[[tuple[int, int] | None, bool], Pixels]
"""Gives a picture at a size, from a file that may be decoded at a fraction of its own."""


@dataclass(frozen=True)
class Deployment:
    """The bundles of a service, of which the first marks and all verify, and who may ask.

    A picture is accepted if any bundle accepts it. So that this happens to an unmarked picture no
    more often than with one bundle, each of several is opened at its part of the false-positive
    rate.
    """

    verifiers: tuple[Verifier, ...]
    callers: Callers | None = None
    books: tuple[MessageBook, ...] = ()
    """What ``/identify`` chooses from, for each verifier."""
    embedder: Embedder | None = None
    registry: Registry | None = None
    """Numbers and remembers the pictures that are marked."""
    resolver: Resolver | None = None

    @property
    def first(self) -> Verifier:
        """The verifier of the bundle that marks."""
        return self.verifiers[0]

    def register(self, names: Sequence[str]) -> Deployment:
        """The same, with identifiers or serials to choose from."""
        books = tuple(verifier.lock.checked_book(names) for verifier in self.verifiers)
        return replace(self, books=books)

    def verify(self, decode: Decode, message: Any, source: Any) -> Verdict:
        """Whether a picture carries ``message``: an identifier, or bits as many as there are."""
        able = [v for v in self.verifiers if isinstance(message, str) or v.bits == len(message)]

        def verdicts() -> Iterator[Verdict]:
            for verifier in able:
                size = verifier.bundle.manifest.size
                pixels = decode(size, True)
                with span("verify"):
                    verdict = verifier.verify(
                        pixels, message, source=source, whole=_whole(decode, size)
                    )
                yield verdict

        return self._corrected(_best(verdicts(), lambda verdict: verdict))

    def identify(self, decode: Decode, source: dict[str, Any]) -> Identification:
        """Which of the registered messages a picture carries, if any."""

        def found() -> Iterator[Identification]:
            for verifier, book in zip(self.verifiers, self.books, strict=True):
                given = Given(decode(verifier.bundle.manifest.size, False))
                with span("identify"):
                    [answer] = verifier.lock.identify(*verifier.logits(given.items[0]), book)
                    verifier.announce([answer.verdict], given, {**source, "id": answer.label})
                yield answer

        best = _best(found(), lambda answer: answer.verdict)
        return replace(best, verdict=self._corrected(best.verdict))

    def _corrected(self, verdict: Verdict) -> Verdict:
        """The verdict of one bundle as that of all of them."""
        tries = len(self.verifiers)
        if tries == 1:
            return verdict
        return replace(verdict, p_value=min(1.0, tries * verdict.p_value), fpr=tries * verdict.fpr)

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


def _whole(decode: Decode, size: tuple[int, int] | None) -> Callable[[int], Pixels]:
    return lambda _: decode(size, False)


def _best(answers: Iterator[Any], verdict_of: Callable[[Any], Verdict]) -> Any:
    """The first that is accepted, or the most probable."""
    rejected = []
    for answer in answers:
        if verdict_of(answer):
            return answer
        rejected.append(answer)
    return min(rejected, key=lambda answer: verdict_of(answer).p_value)
