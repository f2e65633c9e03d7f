"""``python -m experiments siege``: what callers notice of an attack on ``coverlock serve``.

The service is attacked through nginx if its configuration is given, as it is deployed.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
import httpx
import numpy as np
from PIL import Image

from coverlock_bench.measurement import Measured, measurement, number_option
from coverlock_bench.photos import find_photos, jpeg_files
from coverlock_sdk.errors import CoverLockError
from experiments.service import networks, running_service, service_options, wait_for

SECONDS_TO_ANSWER = 2.0
ASKS_A_SECOND = 4
WANTED = 0.95
"""Part of its answers that the victim must get in time."""
THREADS = 32
"""Threads of an attack; slow senders and idlers hold many connections each."""
HELD = 15
COLLUDERS = 4
"""Callers who attack together, each from an address of its own; their victim is at 127.0.0.1."""


class Target(NamedTuple):
    """What is attacked, and from where."""

    url: str
    token: str
    source: str

    def connect(self) -> socket.socket:
        """A new connection."""
        parts = urlsplit(self.url)
        return socket.create_connection(
            (parts.hostname, parts.port or 80), 5, source_address=(self.source, 0)
        )


Attack = Callable[[Target, Any], None]


def besiege(
    bundle: Path,
    picture: bytes,
    seconds: float,
    options: tuple[str, ...] = (),
    proxy: Path | None = None,
    threads: int = 1,
    colluders: int = COLLUDERS,
) -> dict[str, Any]:
    """How often one caller is answered in time: in peace, and while others attack.

    ``proxy`` is a configuration of nginx to put in front of the service.
    """
    figures = {}
    callers = (*(f"attacker-{number}" for number in range(colluders)), "victim")
    with (
        running_service(bundle, options, callers, threads) as (direct, tokens, process),
        contextlib.nullcontext(direct) if proxy is None else behind_nginx(proxy, direct) as url,
    ):
        *attacking, victim = tokens
        attackers = [Target(url, token, f"127.0.0.{n}") for n, token in enumerate(attacking, 2)]
        figures["peace"] = _asked(url, victim, picture, seconds)
        for name in ATTACKS:
            with _attacked(name, attackers):
                figures[name] = _asked(url, victim, picture, seconds)
        figures["end"] = {"alive": process.poll() is None}
    return figures


def require_answers(figures: dict[str, Any]) -> None:
    """Raise a sentence unless the service survived and its victim was answered in time."""
    if not figures["end"]["alive"]:
        raise CoverLockError("the service did not survive the siege: see the result file")
    parts = {name: figure["in_time"] for name, figure in figures.items() if name != "end"}
    worst = min(parts, key=lambda name: parts[name])
    if parts[worst] < WANTED:
        raise CoverLockError(
            f"the victim got only {parts[worst]:.0%} of its answers within {SECONDS_TO_ANSWER:g} s "
            f"({worst}), and {WANTED:.0%} are wanted: see the result file"
        )


@contextlib.contextmanager
def behind_nginx(configuration: Path, service: str) -> Iterator[str]:
    """The address of an nginx in front of ``service``, configured as given but without TLS."""
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if nginx is None:
        raise CoverLockError("nginx is not installed: install it, or leave out --nginx")
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        text = configuration.read_text()
        text = re.sub(r"listen [^;]*;", f"listen 127.0.0.1:{port};", text)
        text = re.sub(r"ssl_[^;]*;", "", text)
        text = re.sub(r"server [^;{]*;", f"server {urlsplit(service).netloc};", text)
        own = Path(folder) / "nginx.conf"
        own.write_text(text)
        own.chmod(0o644)
        Path(folder).chmod(0o755)
        log = Path(folder) / "errors"
        settings = f"daemon off; pid {folder}/pid; error_log {log};"
        process = subprocess.Popen([nginx, "-p", folder, "-c", str(own), "-g", settings])
        try:
            wait_for(f"http://127.0.0.1:{port}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


@contextlib.contextmanager
def _attacked(name: str, targets: list[Target]) -> Iterator[None]:
    """Attackers in a process of their own, so that they take no time from who measures."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    attackers = context.Process(target=_attack, args=(name, targets, over), daemon=True)
    attackers.start()
    try:
        time.sleep(2)
        yield
    finally:
        over.set()
        attackers.join(60)


def _attack(name: str, targets: list[Target], over: Any) -> None:
    if hasattr(os, "nice"):
        os.nice(10)  # real attackers compute elsewhere
    attack = ATTACKS[name]()
    threads = [
        threading.Thread(target=attack, args=(targets[number % len(targets)], over), daemon=True)
        for number in range(max(THREADS, len(targets)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _asked(url: str, token: str, picture: bytes, seconds: float) -> dict[str, Any]:
    """Ask at a steady pace, whether or not answers come, each time over a new connection."""
    unused = ssl.create_default_context()  # a new one for each client takes longer than an answer

    def ask() -> tuple[str, float]:
        start = time.perf_counter()
        try:
            answer = httpx.post(
                f"{url}/verify?id=siege",
                content=picture,
                headers=_bearer(token),
                timeout=30,
                verify=unused,
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

    def attack(target: Target, over: Any) -> None:
        transport = httpx.HTTPTransport(local_address=target.source)
        with httpx.Client(transport=transport, headers=_bearer(target.token), timeout=30) as client:
            while not over.is_set():
                with contextlib.suppress(httpx.TransportError):
                    client.post(f"{target.url}/verify?id=siege", content=content)

    return attack


def _held_connections(beginning: str, pause: float = 0.02) -> Attack:
    """An attack that begins requests, does not end them, and begins others when they are closed."""

    def attack(target: Target, over: Any) -> None:
        held: list[socket.socket] = []
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection = target.connect()
                connection.sendall(beginning.format(token=target.token).encode())
                held.append(connection)
            if len(held) > HELD:
                held.pop(0).close()
            over.wait(pause)
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


def _file(image: Image.Image, format: str) -> bytes:
    file = io.BytesIO()
    image.save(file, format=format)
    return file.getvalue()


_POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\n{} loop\n%%EOF\n"
_HALF_OPEN = "GET /livez HTTP/1.1\r\nX-"
_SLOW_BODY = (
    "POST /verify?id=siege HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
    "Content-Length: 1000000\r\n\r\nabc"
)

ATTACKS: dict[str, Callable[[], Attack]] = {
    "PostScript": lambda: _uploads(_POSTSCRIPT),
    "chained TIFF pages": lambda: _uploads(chained_pages()),
    "16-megapixel pictures": lambda: _uploads(_file(Image.new("RGB", (4000, 4000)), "PNG")),
    "small pictures": lambda: _uploads(_file(Image.effect_noise((256, 256), 40), "JPEG")),
    "uploads that are too large": lambda: _uploads(bytes(30_000_000)),
    "bodies that never end": lambda: _held_connections(_SLOW_BODY),
    "half-open connections": lambda: _held_connections(_HALF_OPEN),
    "half-open connections without a pause": lambda: _held_connections(_HALF_OPEN, pause=0),
}
"""What each attack prepares before it begins."""


@measurement(
    "experiments siege",
    service_options,
    number_option("--seconds", 20, "Duration of each attack."),
    click.option(
        "--colluders",
        type=click.IntRange(1, 200),
        default=COLLUDERS,
        show_default=True,
        help="Callers who attack together, each from an address of its own (127.0.0.2 and on).",
    ),
    click.option(
        "--nginx",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Configuration of an nginx to attack through, such as examples/deploy/nginx.conf.",
    ),
)
def siege_command(
    bundle: Path, images: Path | None, side: int, nginx: Path | None, **load: Any
) -> Iterator[Measured]:
    """Attack 'coverlock serve' as several callers, and count the answers that another gets in time.

    Attackers, callers and the service share the machine. The command fails if fewer than 95 % of
    the answers come within 2 seconds, in peace or under any attack; the result file is written
    anyway.
    """
    [picture] = jpeg_files(find_photos(images), 1, side)
    options = ("--runtime", load["runtime"], "--limit", f"rejections={10**6}")
    with_whom = nginx, load["threads"], load["colluders"]
    figures = besiege(bundle, picture, load["seconds"], options, *with_whom)
    config = {**networks(bundle), "side": side, "nginx": nginx is not None, **load}
    yield Measured(config, figures)
    require_answers(figures)
