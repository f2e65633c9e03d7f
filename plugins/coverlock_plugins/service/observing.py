"""What operators see of a service: a line of JSON for each event, and counters."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coverlock_plugins.service.access import ANYBODY

if TYPE_CHECKING:
    from coverlock_plugins.service.service import Service

BATCHES = (1, 2, 4, 8, 16, 32, 64)
HEADER = b"x-request-id"
_CHOSEN = re.compile(rb"[\w.-]{1,64}", re.ASCII)

logger = logging.getLogger(__name__)
"""Gets one line per request, at level INFO, without identifiers of pictures."""


class Metrics:
    """What the service counts, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ours: dict[str, Any] = {"namespace": "coverlock", "registry": self.registry}
        self.requests = Counter("requests", "Answers.", ("route", "status", "caller"), **ours)
        self.seconds = Histogram("request_seconds", "Time to answer.", ("route",), **ours)
        self.verdicts = Counter("verdicts", "Verdicts and marks.", ("outcome", "caller"), **ours)
        self.work = Counter("work_seconds", "Spent on pictures.", ("caller",), **ours)
        self.decoding_wait = Histogram("decoding_wait_seconds", "Wait for a decoder.", **ours)
        self.batches = Histogram("batch_pictures", "Of each batch.", buckets=BATCHES, **ours)
        self.in_flight = Gauge("in_flight", "Pictures in progress or waiting.", **ours)


class JsonLines(logging.Formatter):
    """Writes every record of the log as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        made = datetime.fromtimestamp(record.created, timezone.utc)
        line = {"time": made.isoformat(timespec="milliseconds"), "level": record.levelname.lower()}
        said = {"logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "about", said)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_as_json() -> None:
    """Write this process's log to standard error, as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    logger.setLevel(logging.INFO)


class Observed:
    """ASGI application around another: gives each request an ID, and records its outcome.

    A proxy may set the ID in ``X-Request-ID``. Handlers find it in ``request.state``. While the
    service drains, every answer asks the client to reconnect, so that it reaches another one.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record its outcome."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        chosen = dict(scope["headers"]).get(HEADER, b"")
        name = chosen if _CHOSEN.fullmatch(chosen) else uuid.uuid4().hex.encode()
        scope.setdefault("state", {})["request_id"] = name.decode()
        status, start = 500, time.perf_counter()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (HEADER, name)]
                if self.service.draining:
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        try:
            await self.app(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - start
            caller = scope["state"].get("caller", ANYBODY).name
            route = getattr(scope.get("route"), "path", "none")
            self.service.metrics.requests.labels(route, str(status), caller).inc()
            self.service.metrics.seconds.labels(route).observe(seconds)
            about = {
                "request": name.decode(),
                "caller": caller or None,
                "method": scope["method"],
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
            }
            logger.info("request", extra={"about": about})
