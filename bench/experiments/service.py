"""``python -m experiments service``: ``coverlock serve`` under load.

Throughput, waiting times, overload and memory. The client shares the machine with the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np

from coverlock_bench.measurement import (
    FOLDER,
    Measured,
    images_option,
    measurement,
    number_option,
    side_option,
)
from coverlock_bench.photos import find_photos, jpeg_files
from coverlock_plugins.service.access import add_token
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import together
from coverlock_sdk.errors import CoverLockError

_SETTLED = 500
"""Requests after which memory is expected not to grow any more."""

_LOOKS = 10
"""How often memory is looked at during the steady load."""


@dataclass
class Load:
    """What came of a number of requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Counts by status, and the waiting times of what was answered with 200."""
        answered = len(self.seconds)
        return {
            "statuses": dict(self.statuses),
            "answered_per_second": round(answered / self.elapsed, 1),
            "p50_ms": round(1000 * float(np.percentile(self.seconds, 50)), 1),
            "p99_ms": round(1000 * float(np.percentile(self.seconds, 99)), 1),
        }


def load_test(
    bundle: Path,
    pictures: list[bytes],
    requests: int,
    connections: int,
    options: tuple[str, ...] = (),
    threads: int = 1,
) -> dict[str, Any]:
    """Serve ``bundle`` in a process of its own; steady load, overload, then many requests."""
    options = (*options, "--limit", f"rejections={10**9}")  # most of the pictures are unmarked
    with running_service(bundle, options, ("load-test",), threads) as (url, [token], process):
        headers = {"Authorization": f"Bearer {token}"}
        asyncio.run(_ask(url, headers, pictures, min(requests, _SETTLED), connections))
        before = _resident(process)
        along: dict[int, float] = {}
        points = {requests * look // _LOOKS for look in range(1, _LOOKS + 1)}

        def look(answered: int) -> None:
            if answered in points:
                along[answered] = _resident(process)

        steady = asyncio.run(_ask(url, headers, pictures, requests, connections, look))
        after = _resident(process)
        overload = asyncio.run(_ask(url, headers, pictures, 40 * connections, 40 * connections))
    if "lost" in steady.statuses or "lost" in overload.statuses:
        raise CoverLockError(f"requests were lost: {steady.statuses}, {overload.statuses}")
    return {
        "steady": steady.figures(),
        "overload": overload.figures(),
        "memory_mb": {"before": before, "along": along, "after": after},
    }


@contextlib.contextmanager
def running_service(
    bundle: Path, options: tuple[str, ...], callers: tuple[str, ...], threads: int = 1
) -> Iterator[tuple[str, list[str], subprocess.Popen[bytes]]]:
    """``coverlock serve`` in a process of its own: its address, a token for each caller, itself."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        tokens = Path(folder) / "tokens.json"
        made = [add_token(tokens, name, ("verify",), rate=1e9, burst=10**9) for name in callers]
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-c", "from coverlock_sdk.cli import main; main()"]
        command += ["serve", str(bundle), "--trust", "any", "--tokens", str(tokens)]
        command += ["--listen", f"127.0.0.1:{port}", *options]
        log = Path(folder) / "log"
        with log.open("wb") as output:  # a pipe that nobody reads would stop the service
            process = subprocess.Popen(
                command, stderr=output, env={**os.environ, "OMP_NUM_THREADS": str(threads)}
            )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_for(url, process, log)
            yield url, made, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the service at ``url`` is ready; an error if ``process`` ends before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CoverLockError(f"the service did not start: {log.read_text()}")
        with contextlib.suppress(httpx.HTTPError):  # not up, or not ready
            httpx.get(f"{url}/readyz").raise_for_status()
            return
        time.sleep(0.1)
    raise CoverLockError("the service did not start in two minutes")


async def _ask(
    url: str,
    headers: dict[str, str],
    pictures: list[bytes],
    requests: int,
    connections: int,
    look: Callable[[int], None] = lambda answered: None,
) -> Load:
    """Post ``requests`` pictures over ``connections`` connections, each busy all the time.

    ``look`` is told after each answer how many there have been.
    """
    load, numbers = Load(), iter(range(requests))
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)

    async def client() -> None:
        for number in numbers:
            start = time.perf_counter()
            try:
                answer = await session.post(
                    "/verify", params={"id": "load"}, content=pictures[number % len(pictures)]
                )
            except httpx.TransportError:
                load.statuses["lost"] += 1
                continue
            load.statuses[str(answer.status_code)] += 1
            look(load.statuses.total())
            if answer.status_code == httpx.codes.OK:
                load.seconds.append(time.perf_counter() - start)

    async with httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=120
    ) as session:
        start = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(connections)))
        load.elapsed = time.perf_counter() - start
    return load


def _resident(process: subprocess.Popen[bytes]) -> float:
    """Megabytes of memory that a process has."""
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return round(int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


service_options = together(
    click.argument("bundle", type=FOLDER),
    images_option,
    side_option,
    click.option("--runtime", default="cpu", show_default=True),
    number_option("--threads", 1),
)
"""What studies of a running service are given."""


@measurement(
    "experiments service",
    service_options,
    number_option("--requests", 10_000, "Requests in the steady part."),
    number_option("--connections", 8, "Concurrent connections."),
)
def service_command(bundle: Path, images: Path | None, side: int, **load: Any) -> Measured:
    """Load 'coverlock serve' on this machine, first steadily and then beyond its capacity.

    Memory is sampled after a warm-up, ten times during the run, and at the end. The command fails
    if a request gets no answer.
    """
    pictures = list(jpeg_files(find_photos(images), 32, side))
    options = ("--runtime", load["runtime"])
    figures = load_test(
        bundle, pictures, load["requests"], load["connections"], options, load["threads"]
    )
    return Measured({**networks(bundle), "side": side, **load}, figures)


def networks(bundle: Path) -> dict[str, Any]:
    """What a bundle was exported from."""
    manifest = Bundle.open(bundle).manifest
    return {"watermark": manifest.watermark, "hash": manifest.hash}
