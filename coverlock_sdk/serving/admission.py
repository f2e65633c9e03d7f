"""How much of the service a request may take, and a caller with all of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from coverlock_sdk.images.picture import MAX_PIXELS


@dataclass(frozen=True)
class Limits:
    """The limits of the service."""

    bytes: int = 20_000_000
    """Of a request's body."""
    pixels: int = MAX_PIXELS
    """Of a picture: a small file may decode to a very large one."""
    in_flight: int = 64
    """Pictures being verified or waiting; one more is answered 503. A caller has half of them."""
    seconds: float = 10.0
    """For receiving a picture, and again for answering."""
    rejections: int = 100
    """An hour that one caller may have for one message: whoever searches for a forgery by asking
    needs hundreds of them, and whoever checks real pictures hardly any."""
    decode_seconds: float = 5.0
    """For decoding a picture, which is stopped then."""
    idle_seconds: float = 5.0
    """For a connection to send the headers of a request, the first or the next."""
    connections: int = 1000
    """One more, and of the address with most of them the one that is idle for longest is closed."""
    arrivals: float = 500.0
    """New connections a second of one address, on average, and twice as many at once."""

    @property
    def buffered(self) -> int:
        """Bytes of bodies in memory, of which a caller has half."""
        return max(4 * self.bytes, 500_000_000)


class Shares:
    """Something of which there is a ``total``, and for one holder at most ``each``."""

    def __init__(self, total: int, each: int | None = None) -> None:
        self.total = total
        self.each = total if each is None else each
        self.held: Counter[Hashable] = Counter()

    def take(self, holder: Hashable, amount: int = 1) -> bool:
        """Take some more, if it is there."""
        if self.held[holder] + amount > self.each or self.held.total() + amount > self.total:
            self.held += Counter()  # looking made an entry
            return False
        self.held[holder] += amount
        return True

    def give(self, holder: Hashable, amount: int = 1) -> None:
        """Give some back."""
        self.held -= Counter({holder: amount})


class Stay:
    """What one request holds of the service until it is answered."""

    def __init__(self, holder: Hashable) -> None:
        self._holder = holder
        self._held: list[tuple[Shares, int]] = []

    def take(self, shares: Shares, amount: int = 1) -> bool:
        """Take some of ``shares``, if it is there."""
        taken = shares.take(self._holder, amount)
        if taken:
            self._held.append((shares, amount))
        return taken

    def leave(self) -> None:
        """Give everything back."""
        while self._held:
            shares, amount = self._held.pop()
            shares.give(self._holder, amount)
