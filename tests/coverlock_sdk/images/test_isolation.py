from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.errors import OverloadedError, PictureError
from coverlock_sdk.images import isolation
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.images.turns import Turns

SIZE = (64, 48)


@pytest.fixture(scope="module")
def pool():
    with DecodingPool(processes=2, seconds=30) as pool:
        yield pool


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, format=kind)
    return file.getvalue()


def test_pixels_are_those_that_this_process_would_read(pool, photos):
    for photo in photos[:3]:
        content = encoded(Image.fromarray(photo), "JPEG")
        np.testing.assert_array_equal(pool.pixels(content, SIZE), read(content).to_bytes(SIZE))
        np.testing.assert_array_equal(pool.pixels(content), read(content).to_bytes())


def test_bad_pictures_are_refused_in_the_same_words(pool):
    for content in (b"hello", encoded(Image.new("L", (8, 8))), b""):
        with pytest.raises(PictureError) as here:
            read(content)
        with pytest.raises(PictureError) as there:
            pool.pixels(content, SIZE)
        assert str(there.value) == str(here.value)


def test_warnings_come_back_too(pool):
    with pytest.warns(UserWarning, match="16 bits per channel"):
        pool.pixels(deep_colour(), SIZE)


def deep_colour() -> bytes:
    """A PNG of 16 bits a channel, which Pillow cannot write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", 40, 40, 16, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(40 * 6)) * 40)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", rows), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


STAND_IN = """
import os, sys, time
from coverlock_sdk.images import decoding_process as process
def read(content, max_pixels, seen_at=None):
    if content == b"slow": time.sleep(60)
    if content == b"crash": os.abort()
    if content == b"hungry": return bytearray(int(4e9))
    raise process.PictureError("plain")
process.read = read
process.main()
"""


@pytest.fixture
def scripted(monkeypatch):
    """A pool whose processes sleep, crash and eat memory on request."""
    begin = subprocess.Popen

    def start(command, **options):
        return begin([sys.executable, "-c", STAND_IN, command[-1]], **options)

    monkeypatch.setattr(isolation.subprocess, "Popen", start)
    with DecodingPool(processes=1, seconds=2) as pool:
        with pytest.raises(PictureError, match="plain"):
            pool.pixels(b"anything", SIZE)  # it is up
        pool.seconds = 0.5
        yield pool


@pytest.mark.skipif(os.name != "posix", reason="memory is limited by setrlimit")
@pytest.mark.parametrize(
    ("attack", "complaint"),
    [("slow", "more than 0.5 s"), ("crash", "crashes its decoder"), ("hungry", "memory")],
)
def test_a_picture_that_hangs_crashes_or_eats_is_an_error_and_the_next_is_read(
    scripted, attack, complaint
):
    started = time.monotonic()
    with pytest.raises(PictureError, match=complaint):
        scripted.pixels(attack.encode(), SIZE)
    assert time.monotonic() - started < 4
    scripted.seconds = 10
    with pytest.raises(PictureError, match="plain"):
        scripted.pixels(b"anything", SIZE)


def test_no_process_outlives_its_parent(tmp_path):
    code = (
        "import os\n"
        "from coverlock_sdk.images.isolation import DecodingPool\n"
        "pool = DecodingPool(processes=1)\n"
        "try: pool.pixels(b'no picture', (64, 64))\n"
        "except Exception: print(pool._all[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    child = int(done.stdout)
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the process is still there")


def test_who_asks_a_lot_does_not_keep_others_waiting():
    turns, order = Turns(2), []
    gate = threading.Event()

    def hold(name: str) -> None:
        with turns.turn(name, 10):
            order.append(name)
            gate.wait(10)

    threads = [threading.Thread(target=hold, args=["greedy"]) for _ in range(6)]
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    assert order == ["greedy"]  # half of the places
    with turns.turn("modest", 1):
        order.append("modest")
    with pytest.raises(OverloadedError), turns.turn("greedy", 0.05):
        pass
    gate.set()
    for thread in threads:
        thread.join()
    assert order == ["greedy", "modest"] + ["greedy"] * 5
    assert turns._free == 2
    assert not turns._waiting
