"""The service on a port of its own, and clients of it."""

import io
import socket
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import numpy as np
from PIL import Image

from coverlock_plugins.service.access import Caller, Callers, Limits, digest
from coverlock_plugins.service.deployment import Deployment
from coverlock_plugins.service.server import Server, bind
from coverlock_plugins.service.service import Service

PLAIN, DETAILED, WATCHER = "plain-token", "detailed-token", "watching-token"
EVERYTHING = ("verify", "identify", "embed", "detail")
QUICK = {"rate": 1e6, "burst": 10**6}
CALLERS = Callers(
    (
        Caller("shop", digest(PLAIN), ("verify",), **QUICK),
        Caller("lab", digest(DETAILED), EVERYTHING, **QUICK),
        Caller("prometheus", digest(WATCHER), ("metrics",)),
    )
)


class BrokenRuntime:
    """Raises what nobody expects of a runtime."""

    name = "broken"
    providers = ("nothing",)

    def run(self, images):
        raise ZeroDivisionError("a secret of this machine")

    def close(self):
        pass


@contextmanager
def served(verifier, callers=CALLERS, limits=None, names=(), **having):
    """The service on a port of its own, in a thread; ``names`` are what it may identify."""
    book = verifier.lock.book(names) if names else None
    deployment = Deployment(verifier, callers, book, **having)
    with running(Service(lambda: deployment, limits or Limits())) as client:
        yield client


@contextmanager
def running(service, **settings):
    """A client of a service that runs in a thread."""
    server, bound = Server(service), bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=30, **settings) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="png")
    return file.getvalue()


def ask(client, content, token=PLAIN, **query):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return client.post("/verify", params=query, content=content, headers=headers)


def counters(client) -> dict[str, float]:
    text = client.get("/metrics", headers={"Authorization": f"Bearer {WATCHER}"}).text
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def until(true, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if true():
                return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def raw_request(client, announced: int) -> socket.socket:
    url = client.base_url
    connection = socket.create_connection((url.host, url.port), timeout=10)
    lines = [
        "POST /verify?id=alice HTTP/1.1",
        f"Host: {url.host}",
        f"Authorization: Bearer {PLAIN}",
        f"Content-Length: {announced}",
    ]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return connection
