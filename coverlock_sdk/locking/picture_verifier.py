"""The verification interface that ``wrap`` results and ``Verifier`` share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union, overload

from coverlock_sdk.arrays import Logits
from coverlock_sdk.frames import Frame
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.picture import MAX_PIXELS, Picture
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.keys import Keyring
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.plugin_manager import plugin_manager

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

Many = list[Any] | tuple[Any, ...]
Decision = TypeVar("Decision", Verdict, Identification)
One = Union[str, os.PathLike[str], bytes, "PilImage"]
"""Kinds that always mean many pictures, or always one; an array may be either."""

Listener = Callable[[Verdict, str, str | None, Any], None]
"""Called with every verdict, like the hook ``verdict_reached``; an audit log is one."""


class PictureVerifier(ABC):
    """Verifies and identifies pictures.

    Every method takes one picture (a path, the bytes of a file, a PIL image, an array or a tensor)
    or many (a list of these, a 4-D array or a ``Given``), and returns one answer or a list.
    """

    max_pixels: int = MAX_PIXELS
    """Larger picture files are refused; set it to change the limit."""

    def __init__(self, lock: Lock, watermark_name: str, listeners: Sequence[Listener] = ()) -> None:
        self.lock = lock
        self.watermark_name = watermark_name
        self.hash_name = None if lock.hash is None else lock.hash.name
        self._listeners = listeners

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self.lock.bits

    @property
    def fpr(self) -> float:
        """How often an unmarked picture may be accepted."""
        return self.lock.fpr

    @property
    def keyring(self) -> Keyring | None:
        """The keys in use, if any."""
        return self.lock.keyring

    @overload
    def verify(self, pictures: Many, messages: Any) -> list[Verdict]: ...

    @overload
    def verify(self, pictures: One, messages: Any) -> Verdict: ...

    @overload
    def verify(self, pictures: Any, messages: Any) -> Any: ...

    def verify(self, pictures: Any, messages: Any) -> Any:
        """Check whether each picture carries its message.

        ``messages`` is one message for all pictures or one each; a string is an identifier. Large
        JPEG files are decoded at a fraction of their size, and in full if the verdict is close.
        """
        given = self._given(pictures)
        judge = partial(self.lock.verify, messages=messages, looks=Looks(self, given))
        return self._decided(given, judge, lambda verdict: verdict)

    @overload
    def identify(self, pictures: Many, messages: Any) -> list[Identification]: ...

    @overload
    def identify(self, pictures: One, messages: Any) -> Identification: ...

    @overload
    def identify(self, pictures: Any, messages: Any) -> Any: ...

    def identify(self, pictures: Any, messages: Any) -> Any:
        """Find which of many registered messages each picture carries, if any.

        ``messages`` is a list of identifiers, a mapping from labels to messages, an array
        (N, bits), or a ``book`` of them. The p-value is corrected for their number and the keys'.
        """
        book, given = self.lock.book(messages), self._given(pictures)
        judge = partial(self.lock.identify, book=book, looks=Looks(self, given))
        return self._decided(given, judge, lambda found: found.verdict)

    def book(self, messages: Any) -> MessageBook:
        """Pack registered messages, or identifiers, for repeated identification."""
        return self.lock.book(messages)

    def decode(self, pictures: Any) -> Any:
        """The message logits (N, bits) that ``pictures`` show without a key."""
        given = Given(pictures, self.max_pixels)
        return given.like_given(self.lock.message_logits(*self._logits(given)))

    def logits(self, pictures: Any) -> tuple[Logits, Any]:
        """Decoder logits (N, payload bits), and what the hash keeps of each picture."""
        return self._logits(Given(pictures, self.max_pixels))

    @property
    @abstractmethod
    def _seen_at(self) -> tuple[int, int] | None:
        """Height and width that all pictures are resampled to; None if they are not."""

    def _given(self, pictures: Any) -> Given:
        if isinstance(pictures, Given):
            return pictures
        return Given(pictures, self.max_pixels, self._seen_at)

    def _decided(
        self,
        given: Given,
        judge: Callable[[Logits, Any], list[Decision]],
        verdict_of: Callable[[Decision], Verdict],
    ) -> Any:
        """What ``judge`` returns for the logits, or for a full decode if the verdict is close."""
        decoded, described = self._logits(given)
        decisions = judge(decoded, described)
        close = [
            row
            for row, decision in enumerate(decisions)
            if given.may_be_a_fraction(row) and verdict_of(decision).is_close
        ]
        if close:
            decoded[close], described[close] = self._logits(given.whole(close))
            decisions = judge(decoded, described)
        self.announce(list(map(verdict_of, decisions)), given)
        return decisions[0] if given.single else decisions

    @abstractmethod
    def decode_placed(self, picture: Picture, frame: Frame) -> Logits:
        """The decoder logits (payload bits,) of one picture, put back in its place in a frame."""

    @abstractmethod
    def _logits(self, given: Given) -> tuple[Logits, Any]:
        """The logits of pictures; only the pictures that run together are in memory."""

    def announce(self, verdicts: Sequence[Verdict], given: Given, source: Any = None) -> None:
        """Report verdicts to every listener; ``source`` replaces the path of a picture."""
        sources = given.paths if source is None else [source] * len(given)
        for verdict, each in zip(verdicts, sources, strict=True):
            for listener in (*self._listeners, plugin_manager().announce):
                listener(verdict, self.watermark_name, self.hash_name, each)


class Looks(NamedTuple):
    """Access to more of the pictures that were passed in."""

    verifier: PictureVerifier
    given: Given

    def aspect(self, row: int) -> float:
        """A picture's width over its height."""
        return self.given.aspect(row)

    def placed(self, row: int, frame: Frame) -> Logits:
        """What the decoder reads in a picture put back in its place."""
        return self.verifier.decode_placed(self.given.picture(row), frame)
