"""What a verdict and a mark cost, beside a public library, plain decoding and a plain service.

Everything takes turns on one core, in processor time, so that a busy machine slows all alike; the
ratios are what counts. Workers are also timed by the clock, which needs a quiet machine.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import httpx
import numpy as np

from coverlock_bench.measurement import Measured, images_option, measurement, number_option
from coverlock_bench.photos import find_photos, jpeg_files
from coverlock_bench.tables import Table
from coverlock_export.exporting import ExportRequest, export_bundle
from coverlock_sdk import CoverLock, Embedder, Verifier, wrap
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.images.codecs import load_image
from coverlock_sdk.locking.keys import generate_key
from coverlock_sdk.verifier.verifier import Settings
from experiments.service import running_service, wait_for

MESSAGE = "speed"
LIBRARY = "invisible-watermark reads dwtDctSvd"
BITS = 64
SIDE, LARGE = 256, (3000, 4000)
BATCH = 8

PLAIN_SERVICE = """
import sys
import uvicorn
from fastapi import FastAPI, Request
from coverlock_sdk import Key, Verifier

verifier = Verifier.open(sys.argv[1], "cpu", key=sys.argv[3], trust="any")
app = FastAPI()

@app.get("/readyz")
def readyz():
    return "ready"

@app.post("/verify")
async def verify(id: str, request: Request):
    from starlette.concurrency import run_in_threadpool
    content = await request.body()
    return {"accepted": (await run_in_threadpool(verifier.judge, content, id)).accepted}

uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", access_log=False)
"""
"""The least that one would write oneself: no tokens, limits, isolation, budgets or log.

It takes the same steps whatever the verdict, as ours does: what is compared is the serving.
"""

Work = Callable[[], Any]


def cases(
    bundle: Path, key: Path, pictures: list[bytes], stack: ExitStack
) -> dict[str, tuple[Work, int]]:
    """What is timed, and how many pictures each call handles."""

    def verifier(runtime: str, precision: str) -> Verifier:
        settings = Settings(precision, threads=1, max_batch=BATCH)
        opened = Verifier.open(bundle, runtime, key=key, trust="any", settings=settings)
        return stack.enter_context(opened)

    embedder = Embedder.open(bundle, key=key, trust="any", threads=1)
    locked = CoverLock(key=key, harden=False).protect(embedder.binder.networks.watermark)
    one, large = pictures[0], jpeg_of(pictures[0], LARGE)
    marked = [embedder.mark_content(picture, MESSAGE, ".jpg", 90)[0] for picture in pictures]
    marked_large = embedder.mark_content(large, MESSAGE, ".jpg", 90)[0]
    found: dict[str, tuple[Work, int]] = {LIBRARY: (library_read(marked[0]), 1)}
    for runtime, precision, count in (
        ("cpu", "fp32", 1),
        ("openvino", "fp32", 1),
        ("openvino", "int8", 1),
        ("openvino", "int8", BATCH),
    ):
        work = partial(verifier(runtime, precision).verify, marked[:count], MESSAGE)
        found[f"verify on {runtime}, {precision}, {count} at a time"] = (work, count)
    plain = verifier("cpu", "fp32")
    return {
        **found,
        "reject an unmarked picture, all frames tried": (lambda: plain.verify(one, MESSAGE), 1),
        "decode 12 megapixels": (lambda: load_image(marked_large), 1),
        "verify 12 megapixels": (lambda: plain.verify(marked_large, MESSAGE), 1),
        "embed, hardened": (lambda: embedder.mark_content(one, MESSAGE, ".jpg", 90), 1),
        "embed, not hardened": (lambda: locked.mark_content(one, MESSAGE, ".jpg", 90), 1),
        "embed 12 megapixels": (lambda: embedder.mark_content(large, MESSAGE, ".jpg", 90), 1),
    }


def library_read(picture: bytes) -> Work:
    """What invisible-watermark does to read a picture file, decoding included."""
    import cv2
    from imwatermark import WatermarkDecoder

    buffer = np.frombuffer(picture, np.uint8)
    cv2.setNumThreads(1)

    def read() -> Any:
        pixels = cv2.imdecode(buffer, cv2.IMREAD_COLOR)
        return WatermarkDecoder("bits", BITS).decode(pixels, "dwtDctSvd")

    return read


def jpeg_of(picture: bytes, size: tuple[int, int]) -> bytes:
    """A picture file enlarged to ``size``."""
    from PIL import Image

    file = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).resize(size[::-1], Image.Resampling.BICUBIC)
    image.save(file, format="jpeg", quality=90)
    return file.getvalue()


def timed(planned: dict[str, tuple[Work, int]], turns: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of processor time per picture, and the library's time over each, per turn."""
    for work, _ in planned.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in planned}
    for _ in range(turns):
        for name, (work, count) in planned.items():
            spent = []
            for _ in range(rounds):
                start = time.process_time()
                work()
                spent.append((time.process_time() - start) / count)
            seconds[name].append(min(spent))
    return {
        name: {
            "milliseconds": round(1000 * median(values), 2),
            "times_as_fast": round(
                median(a / b for a, b in zip(seconds[LIBRARY], values, strict=True)), 3
            ),
        }
        for name, values in seconds.items()
    }


def requests(bundle: Path, key: Path, pictures: list[bytes], turns: int) -> dict[str, Any]:
    """Processor time per request of our service, and of a plain one, in turns."""
    limit = ("--limit", f"rejections={10**9}", "--runtime", "cpu", "--key-file", str(key))
    with (
        running_service(bundle, limit, ("speed",)) as (ours, [token], process),
        plain_service(bundle, key) as (plain, other),
    ):
        headers = {"Authorization": f"Bearer {token}"}
        spent: dict[str, list[float]] = {"ours": [], "plain": []}
        for turn in range(turns + 1):
            for name, url, pid in (("ours", ours, process.pid), ("plain", plain, other.pid)):
                before = processor_seconds(pid)
                with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
                    for picture in pictures:
                        answer = client.post("/verify", params={"id": MESSAGE}, content=picture)
                        answer.raise_for_status()
                if turn:  # the first one warms up
                    spent[name].append((processor_seconds(pid) - before) / len(pictures))
    ratios = [a / b for a, b in zip(spent["ours"], spent["plain"], strict=True)]
    return {
        **{f"{name}_ms": round(1000 * median(values), 2) for name, values in spent.items()},
        "ratio": round(median(ratios), 3),
    }


@contextmanager
def plain_service(bundle: Path, key: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The plain service in a process of its own."""
    port = 8700 + os.getpid() % 1000
    command = [sys.executable, "-c", PLAIN_SERVICE, str(bundle), str(port), str(key)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stderr=output, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_for(url, process, log)
            yield url, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def processor_seconds(pid: int) -> float:
    """What a process and the children that it has waited for have spent, and those that live."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == pid or int(fields[1]) == pid:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def workers(bundle: Path, key: Path, pictures: list[bytes], count: int) -> dict[str, Any]:
    """How much faster two processes are than one: by the clock, and by what processors did.

    In processor time, all that two processes add to one counts as done while nothing else is.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            (Path(folder) / f"{number}.jpg").write_bytes(pictures[number % len(pictures)])
        spent: dict[int, list[float]] = {1: [], 2: []}
        worked: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(3):
            for number in spent:
                seconds, processor = verified_in(bundle, key, Path(folder), number)
                spent[number].append(seconds)
                worked[number].append(processor)
        half = [Path(folder) / f"{number}.jpg" for number in range(count // 2, count)]
        for path in half:
            path.unlink()
        rates = {}
        for number, values in spent.items():
            # The time of the second half alone: starting processes is not what is asked here.
            started = [verified_in(bundle, key, Path(folder), number)[0] for _ in range(3)]
            rates[number] = (count - count // 2) / (median(values) - median(started))
    return {
        "pictures": count,
        "seconds": {str(number): round(median(values), 2) for number, values in spent.items()},
        "ratio": round(median(spent[1]) / median(spent[2]), 2),
        "ratio_once_started": round(rates[2] / rates[1], 2),
        "processor_seconds": {str(n): round(median(values), 2) for n, values in worked.items()},
        "ratio_by_processor_time": round(by_processor(median(worked[1]), median(worked[2])), 2),
    }


def by_processor(one: float, two: float) -> float:
    """One process's time over that of the longer of two, if only its own work is shared."""
    return one / (one / 2 + max(0.0, two - one))


def verified_in(bundle: Path, key: Path, folder: Path, number: int) -> tuple[float, float]:
    """Seconds that the command takes with so many workers, and seconds of processors."""
    command = [sys.executable, "-m", "coverlock_sdk", "verify", str(folder), "--bundle"]
    command += [str(bundle), "--trust", "any", "--id", MESSAGE, "--key-file", str(key)]
    command += ["--workers", str(number), "--runtime", "cpu", "--json"]
    before, start = children_seconds(), time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    if done.returncode > 1:
        raise CoverLockError(f"verification failed: {done.stderr.decode()[-300:]}")
    return time.perf_counter() - start, children_seconds() - before


def children_seconds() -> float:
    """Processor time of the processes that this one has waited for, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


SPEED = Table(
    "Processor time per picture on one core, and how many times as fast as the library",
    lambda figures: [{"what": name, **row} for name, row in figures["cases"].items()],
    (
        ("what", "{what}"),
        ("one picture", "{milliseconds:.1f} ms"),
        ("times as fast as dwtDctSvd", "{times_as_fast:.2f}"),
    ),
)
RATIOS = Table(
    "A request beside a plain service's, and two workers beside one",
    lambda figures: [
        {
            "what": "a request, over one of a plain FastAPI service with the same verifier",
            "ratio": figures["requests"]["ratio"],
        },
        {
            "what": "throughput of two workers over one, start-up included",
            "ratio": figures["workers"]["ratio"],
        },
        {
            "what": "the same once they have started",
            "ratio": figures["workers"]["ratio_once_started"],
        },
        {
            "what": "the same by processor time, where all that two add is done by one",
            "ratio": figures["workers"]["ratio_by_processor_time"],
        },
    ],
    (("what", "{what}"), ("ratio", "{ratio:.2f}")),
)


@measurement(
    "experiments speed",
    images_option,
    number_option("--turns", 7, "Passes over all cases."),
    number_option("--rounds", 5, "Calls of each case per pass, of which the quickest counts."),
    number_option("--pictures", 2000, "Pictures for the comparison of workers."),
    click.option("--work", type=click.Path(file_okay=False, path_type=Path), default="runs/speed"),
)
def speed(images: Path | None, turns: int, rounds: int, pictures: int, work: Path) -> Measured:
    """Time verification and embedding beside a library, a plain service and one worker."""
    with needs("the comparison", None, "invisible-watermark"):
        importlib.import_module("imwatermark")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    photos, bundle, key = find_photos(images), work / "bundle", work / "key.json"
    if not key.exists():
        work.mkdir(parents=True, exist_ok=True)
        generate_key(key)
    if not bundle.exists():
        lock = wrap("mbrs", key=key)
        request = ExportRequest(lock, photos[:64], precisions=("fp32", "int8"))
        export_bundle(request, bundle)
    files = list(jpeg_files(photos, BATCH, SIDE))
    with ExitStack() as stack:
        figures: dict[str, Any] = {"cases": timed(cases(bundle, key, files, stack), turns, rounds)}
    figures["requests"] = requests(bundle, key, files * 25, turns)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    figures["workers"] = workers(bundle, key, files, pictures)
    config = {"turns": turns, "rounds": rounds, "side": SIDE, "batch": BATCH, "watermark": "mbrs"}
    return Measured(config, figures, f"{SPEED.markdown(figures)}\n\n{RATIOS.markdown(figures)}")
