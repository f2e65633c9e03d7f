"""Who is connected, from where, and who has to go where there are too many.

A flood asks that for each of its connections, so that the answer must not take longer the more of
them there are.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict
from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class Crowd(Generic[Connection]):
    """Connections by origin, and those that wait for a request in the order of their waiting."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._origins: dict[Connection, str] = {}
        self._sizes: Counter[str] = Counter()
        self._waiting: dict[str, OrderedDict[Connection, None]] = {}

    def enter(self, connection: Connection, origin: str) -> None:
        """Count one more connection."""
        self._origins[connection] = origin
        self._sizes[origin] += 1

    def leave(self, connection: Connection) -> None:
        """Count it no more."""
        self.stop_waiting(connection)
        origin = self._origins.pop(connection, None)
        if origin is not None:
            self._sizes[origin] -= 1
            if not self._sizes[origin]:
                del self._sizes[origin]

    def wait(self, connection: Connection) -> None:
        """Let a connection wait for a request, behind all others of its origin."""
        if (origin := self._origins.get(connection)) is not None:
            waiting = self._waiting.setdefault(origin, OrderedDict())
            waiting[connection] = None
            waiting.move_to_end(connection)

    def stop_waiting(self, connection: Connection) -> None:
        """A request has come, or will not."""
        origin = self._origins.get(connection, "")
        if (waiting := self._waiting.get(origin)) is not None:
            waiting.pop(connection, None)
            if not waiting:
                del self._waiting[origin]

    def superfluous(self) -> Connection | None:
        """Who has to go, if there are too many: who waits for longest at the busiest origin."""
        if len(self._origins) <= self.most or not self._waiting:
            return None
        busiest = max(self._waiting, key=self._sizes.__getitem__)
        return next(iter(self._waiting[busiest]))


def origin(client: tuple[str, int] | None) -> str:
    """The address that a client counts under: in version 6 it may choose among those of a /64."""
    address = client[0] if client else ""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed.packed, 64), strict=False))
