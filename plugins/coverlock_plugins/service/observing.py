"""What those who run a service see of it: a line of JSON for each event, and counters."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Hashable, MutableMapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from coverlock_plugins.service.service import Service

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

HEADER = "X-Request-ID"
_CHOSEN = re.compile(rb"[\w.-]{1,64}", re.ASCII)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)

logger = logging.getLogger(__name__)
"""Gets one line for each request, at level INFO; identifiers of pictures are never in it."""


class Metrics:
    """What the service counts, for Prometheus."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"coverlock_{name}", meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(
                f"coverlock_{name}", meaning, labels, buckets=buckets, registry=registry
            )

        self.requests = counter("requests", "Answers.", "route", "status", "caller")
        self.seconds = histogram("request_seconds", "Time to answer.", _SECONDS, "route")
        self.verdicts = counter("verdicts", "Pictures judged or marked.", "outcome", "caller")
        self.work = counter("work_seconds", "Processor time of decoding and marking.", "caller")
        self.decoding_wait = histogram(
            "decoding_wait_seconds", "Time that pictures waited for a decoder.", _SECONDS
        )
        self.batches = histogram("batch_pictures", "Pictures that ran together.", _BATCHES)
        self.in_flight = Gauge(
            "coverlock_in_flight", "Pictures being worked on or waiting.", registry=registry
        )

    def decoded(self, caller: Hashable, waited: float, worked: float) -> None:
        """Count a picture that was decoded."""
        self.decoding_wait.observe(waited)
        self.work.labels(caller or "").inc(worked)

    def text(self) -> bytes:
        """All of it in Prometheus's format."""
        return generate_latest(self.registry)


class JsonLines(logging.Formatter):
    """Writes every record of the log as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        made = datetime.fromtimestamp(record.created, timezone.utc)
        line = {"time": made.isoformat(timespec="milliseconds"), "level": record.levelname.lower()}
        line |= record.__dict__.get("about") or {
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_as_json() -> None:
    """Write everything that is logged in this process to the standard error, as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logger.setLevel(logging.INFO)


class Observed:
    """ASGI middleware: names each request, tells the client, and notes what came of it.

    A proxy may choose the name in ``X-Request-ID``. Handlers find it in ``request.state``. While
    the service drains, every answer asks the client to connect anew, somewhere else.
    """

    def __init__(self, app: App, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        chosen = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        name = chosen.decode() if _CHOSEN.fullmatch(chosen) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = name
        status, start = 500, time.perf_counter()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (HEADER.lower().encode(), name.encode())]
                if self.service.draining:
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        try:
            await self.app(scope, receive, answer)
        finally:
            self._note(scope, name, status, time.perf_counter() - start)

    def _note(self, scope: Message, name: str, status: int, seconds: float) -> None:
        caller = scope["state"].get("caller")
        route = getattr(scope.get("route"), "path", "none")
        metrics = self.service.metrics
        metrics.requests.labels(route, str(status), caller.name if caller else "").inc()
        metrics.seconds.labels(route).observe(seconds)
        about = {
            "request": name,
            "caller": caller.name if caller else None,
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 4),
        }
        logger.info("request", extra={"about": about})
