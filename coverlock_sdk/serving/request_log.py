"""Every request has an identifier, and a line in the log if somebody reads it."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime, timezone
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

HEADER = "X-Request-ID"
_CHOSEN = re.compile(rb"[\w.-]{1,64}", re.ASCII)

logger = logging.getLogger(__name__)
"""Gets one line of JSON a request, at level INFO; identifiers of pictures are never in it."""


class Lines(logging.Formatter):
    """Writes lines of the log as JSON with the time, or as text for people."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        made = datetime.fromtimestamp(record.created, timezone.utc)
        line = {"time": made.isoformat(timespec="milliseconds"), **record.__dict__["line"]}
        if self.kind == "json":
            return json.dumps(line)
        return "{time} {request} {who} {method} {path} {status} {seconds:.3f} s".format(
            who=line["caller"] or "-", **line
        )


def show_requests(kind: str) -> None:
    """Write a line for each request to the standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(kind))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class RequestLog:
    """ASGI middleware: names each request, tells the client, and logs what came of it.

    A proxy may choose the name in ``X-Request-ID``. Handlers find it in ``request.state``.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        chosen = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        name = chosen.decode() if _CHOSEN.fullmatch(chosen) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = name
        status, start = 0, time.perf_counter()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = (HEADER.lower().encode(), name.encode())
                message["headers"] = [*message.get("headers", ()), own]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        finally:
            if logger.isEnabledFor(logging.INFO):
                caller = state.get("caller")
                line = {
                    "request": name,
                    "caller": caller.name if caller else None,
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "seconds": round(time.perf_counter() - start, 4),
                }
                logger.info(json.dumps(line), extra={"line": line})
