"""Where connections come in: refused at once where an address sends too many of them."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.serving.access import RateLimit
from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.crowd import origin

QUEUE = 4096
"""Connections that the system holds until they are accepted."""
AT_ONCE = 64
"""Connections that are accepted before those that are there are listened to again."""
REFUSED_AT_ONCE = 512
SPARE_FILES = 256
"""Files that are open besides connections."""


class Listener(socket.socket):
    """A socket that accepts connections of every address, but of none too often.

    To refuse one here takes a tenth of the time that it takes to open it and close it again.
    """

    def __init__(self, bound: socket.socket, limits: Limits) -> None:
        super().__init__(fileno=bound.detach())
        self._limits = limits
        self._arrivals = RateLimit()

    def listen(self, backlog: int = QUEUE, /) -> None:
        """Let many wait; ``backlog`` is what event loops accept at once."""
        super().listen(QUEUE)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection of an address that may have one."""
        for _ in range(REFUSED_AT_ONCE):
            connection, client = super().accept()
            rate = self._limits.arrivals
            if not self._arrivals.wait(origin(client), rate, burst=int(2 * rate)):
                return connection, client
            connection.close()
        raise BlockingIOError


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets of every address of ``host``, which do not listen yet."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return [_bound(family, address) for family, _, _, _, address in found]
    except OSError as error:
        raise CoverLockError(
            f"the service cannot listen on {host}, port {port} ({error.strerror or error}): "
            "choose others with --host and --port"
        ) from None


def _bound(family: int, address: Any) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let others take the port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def allow_files(limits: Limits) -> None:
    """Let this process have as many files open as it may have connections, where it can."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + SPARE_FILES
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
