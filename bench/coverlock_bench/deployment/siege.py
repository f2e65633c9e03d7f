"""What other callers notice of an attack on ``coverlock serve``: how many get an answer in time."""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from PIL import Image

from coverlock_bench.deployment.service import running_service

SECONDS_TO_ANSWER = 2.0
ASKS_A_SECOND = 4
ATTACKERS = 8
"""Threads of an attack; slow senders and idlers hold many connections each."""
HELD = 60

Attack = Callable[[str, str, threading.Event], None]


def besiege(
    bundle: Path, picture: bytes, seconds: float, options: tuple[str, ...] = ()
) -> dict[str, Any]:
    """How often one caller is answered in time: in peace, and during each attack of another."""
    figures = {}
    with running_service(bundle, options, ("attacker", "victim")) as (url, tokens, process):
        attacker, victim = tokens
        for name, attack in {"peace": None, **ATTACKS}.items():
            with _attacked(attack, url, attacker):
                figures[name] = _asked(url, victim, picture, seconds)
        figures["end"] = {"alive": process.poll() is None}
    return figures


@contextlib.contextmanager
def _attacked(attack: Attack | None, url: str, token: str) -> Iterator[None]:
    over = threading.Event()
    threads = [
        threading.Thread(target=attack, args=(url, token, over), daemon=True)
        for _ in range(ATTACKERS if attack else 0)
        if attack
    ]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1 if threads else 0)
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def _asked(url: str, token: str, picture: bytes, seconds: float) -> dict[str, Any]:
    """Ask at a steady pace, whether or not answers come."""

    def ask() -> tuple[str, float]:
        start = time.perf_counter()
        try:
            answer = httpx.post(
                f"{url}/verify?id=siege", content=picture, headers=_bearer(token), timeout=30
            )
            return str(answer.status_code), time.perf_counter() - start
        except httpx.TransportError as error:
            return type(error).__name__, time.perf_counter() - start

    with ThreadPoolExecutor(64) as pool:
        asked = []
        for _ in range(int(seconds * ASKS_A_SECOND)):
            asked.append(pool.submit(ask))
            time.sleep(1 / ASKS_A_SECOND)
        answers = [future.result() for future in asked]
    times = [spent for status, spent in answers if status == "200"]
    in_time = sum(spent <= SECONDS_TO_ANSWER for spent in times)
    return {
        "asked": len(answers),
        "statuses": dict(Counter(status for status, _ in answers)),
        "in_time": round(in_time / len(answers), 4),
        "p50_s": round(float(np.median(times)), 3) if times else None,
        "worst_s": round(max(times), 3) if times else None,
    }


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _uploads(content: bytes) -> Attack:
    """An attack that posts the same file over and over."""

    def attack(url: str, token: str, over: threading.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(httpx.TransportError):
                httpx.post(
                    f"{url}/verify?id=siege", content=content, headers=_bearer(token), timeout=30
                )

    return attack


def _held_connections(beginning: str) -> Attack:
    """An attack that begins requests, does not end them, and begins others when they are closed."""

    def attack(url: str, token: str, over: threading.Event) -> None:
        parts = urlsplit(url)
        held: list[socket.socket] = []
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection = socket.create_connection((parts.hostname, parts.port or 80), 5)
                connection.sendall(beginning.format(token=token).encode())
                held.append(connection)
            if len(held) > HELD:
                held.pop(0).close()
            over.wait(0.02)
        for connection in held:
            connection.close()

    return attack


def chained_pages(count: int = 40_000) -> bytes:
    """A TIFF of many pages that share their pixels: 3 megabytes whose pages take long to count."""
    entries = [(256, 3, 1, 64), (257, 3, 1, 64), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8)]
    fields = b"".join(struct.pack("<HHII", *entry) for entry in [*entries, (279, 4, 1, 4096)])
    size, start = 2 + len(fields) + 4, 8 + 4096
    pages = (
        struct.pack("<H", 6) + fields + struct.pack("<I", start + (page + 1) * size)
        for page in range(count)
    )
    last = struct.pack("<H", 6) + fields + bytes(4)
    return b"II*\0" + struct.pack("<I", start) + bytes(4096) + b"".join(pages) + last


def _huge_picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (7900, 7900)).save(file, format="PNG")
    return file.getvalue()


_POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\n{} loop\n%%EOF\n"
_SLOW_BODY = (
    "POST /verify?id=siege HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
    "Content-Length: 1000000\r\n\r\nabc"
)

ATTACKS: dict[str, Attack] = {
    "PostScript": _uploads(_POSTSCRIPT),
    "chained TIFF pages": _uploads(chained_pages()),
    "62-megapixel pictures": _uploads(_huge_picture()),
    "uploads that are too large": _uploads(bytes(30_000_000)),
    "bodies that never end": _held_connections(_SLOW_BODY),
    "half-open connections": _held_connections("GET /livez HTTP/1.1\r\nX-"),
}
