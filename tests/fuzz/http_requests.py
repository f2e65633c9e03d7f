"""Damaged HTTP requests, given to the service without a network in between."""

import asyncio
import random
from pathlib import Path
from typing import Any

from uvicorn.server import ServerState

from coverlock_plugins.service.access import Limits
from coverlock_plugins.service.deployment import Deployment
from coverlock_plugins.service.server import Server
from coverlock_plugins.service.service import Service
from coverlock_sdk import Verifier
from coverlock_sdk.verifier.verifier import Settings
from tests.fuzz.mutations import damaged_bytes
from tests.served import CALLERS, PLAIN

_TOKEN = f"Host: a\r\nAuthorization: Bearer {PLAIN}\r\n"
_BODY = "\x89PNG no picture\n"
REQUESTS = [
    f"POST /verify?id=alice HTTP/1.1\r\n{_TOKEN}Content-Length: {len(_BODY)}\r\n\r\n{_BODY}",
    f"POST /verify?id=a&id=b HTTP/1.1\r\n{_TOKEN}Content-Length: 4\r\n\r\nabcd",
    f"POST /verify?id={'01' * 24} HTTP/1.1\r\n{_TOKEN}Transfer-Encoding: chunked\r\n\r\n"
    "4\r\nabcd\r\n0\r\n\r\n",
    "GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n",
    f"GET /metrics HTTP/1.1\r\n{_TOKEN}X-Request-ID: a.b\r\nExpect: 100-continue\r\n\r\n",
    "GET /openapi.json HTTP/1.0\r\nConnection: close\r\n\r\n",
]


class NoNetwork(asyncio.Transport):
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


def http_reader(bundle: Path) -> Any:
    """A reader that sends one damaged request; an answer of 500 is a finding."""
    loop = asyncio.new_event_loop()
    limits = Limits(seconds=0.5)
    verifier = Verifier.open(bundle, "cpu", settings=Settings(threads=1))
    config = Server(Service(lambda: Deployment(verifier, CALLERS), limits)).config
    config.lifespan = "off"
    config.load()

    async def ask(request: bytes, pieces: int) -> bytes:
        state, transport = ServerState(), NoNetwork()
        connection = config.http_protocol_class(config, state, {})
        connection.connection_made(transport)
        step = max(1, len(request) // pieces)
        for start in range(0, len(request), step):
            if not transport.closed:
                connection.data_received(request[start : start + step])
        connection.connection_lost(None)
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=5)
        return bytes(transport.sent)

    def reader(rng: random.Random) -> None:
        request = damaged_bytes(rng.choice(REQUESTS).encode("latin-1"), rng)
        answer = loop.run_until_complete(ask(request, rng.choice((1, 1, 3, 1000))))
        assert b"HTTP/1.1 500" not in answer, answer[:200]

    return reader
