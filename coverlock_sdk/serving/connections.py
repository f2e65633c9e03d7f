"""Connections that cannot be abused: strict about HTTP, and closed when nothing comes.

Uvicorn alone keeps a connection for ever that never sends a request, takes a request that two
parsers may understand in two ways, and resets a connection whose client is still sending.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, cast

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.crowd import Crowd, origin
from coverlock_sdk.serving.listening import AT_ONCE

MOST_HEADER_BYTES = 16_384

_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")


def server_config(app: FastAPI, limits: Limits, **settings: Any) -> uvicorn.Config:
    """How Uvicorn runs the service; ``settings`` are its own (host, port, ...)."""
    return uvicorn.Config(
        app,
        http=cast(Any, partial(GuardedConnection, limits=limits, crowd=Crowd(limits.connections))),
        ws="none",
        backlog=AT_ONCE,
        access_log=False,  # identifiers are in the query
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # nothing here depends on what they say
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_keep_alive=max(1, int(limits.idle_seconds)),
        timeout_graceful_shutdown=int(2 * limits.seconds) + 1,
        **settings,
    )


class StrictRequests(h11.Connection):
    """Refuses requests that a proxy in front of the service might understand differently."""

    def next_event(self) -> Any:
        """The next event, which is never a request with two lengths or bare line feeds."""
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(b"\r\n\r\n")[0]
            if _BARE_LINE_FEED.search(head):
                raise h11.RemoteProtocolError("a line ends with a bare line feed")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("a request has one length")
        return event


class GuardedConnection(H11Protocol):
    """A connection that is closed when a request does not come in time, or others need the room."""

    def __init__(
        self,
        *arguments: Any,
        limits: Limits,
        crowd: Crowd[GuardedConnection],
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.limits = limits
        self.crowd = crowd
        self.conn = StrictRequests(h11.SERVER, MOST_HEADER_BYTES)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request; where connections are many, one of them has to go."""
        super().connection_made(cast(Any, _LingeringTransport(transport, self)))
        self.crowd.enter(self, origin(self.client))
        self._wait()
        if (superfluous := self.crowd.superfluous()) is not None:
            superfluous.abandon()

    def abandon(self) -> None:
        """Close the connection now, without a word."""
        self._stop_waiting()
        self.crowd.leave(self)
        self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        self.crowd.leave(self)
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Take what a client sends, unless nobody listens to it any more."""
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        """Stop waiting when a request begins."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait()
        super().on_response_complete()

    def linger(self) -> None:
        """Wait for the end of what a client still sends; others may need the room meanwhile."""
        self._stop_waiting()
        self.crowd.wait(self)
        self._deadline = self.loop.call_later(self.limits.seconds, self.transport.abort)

    def _wait(self) -> None:
        self._stop_waiting()
        self.crowd.wait(self)
        self._deadline = self.loop.call_later(self.limits.idle_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        self.crowd.stop_waiting(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _LingeringTransport:
    """A transport that, when closed, first lets a client finish that is still sending.

    A client that sends a body nobody reads would otherwise see its connection reset, and never
    the answer.
    """

    def __init__(self, transport: asyncio.Transport, protocol: GuardedConnection) -> None:
        self._transport = transport
        self._protocol = protocol
        self._lingering = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._lingering or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, after what the client still sends."""
        if self.is_closing():
            return
        if self._protocol.conn.their_state is not h11.SEND_BODY:
            self._transport.close()
            return
        self._lingering = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._protocol.linger()
