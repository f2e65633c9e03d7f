import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.errors import OverloadedError, PictureError
from coverlock_sdk.images import isolation
from coverlock_sdk.images.conversion import opened, read
from coverlock_sdk.images.isolation import DecodingPool, Turns
from experiments import disguises
from experiments.disguises import encoded
from tests.conftest import wait_until_gone

SIZE = (64, 48)


@pytest.fixture(scope="module")
def pool():
    with closing(DecodingPool(processes=2, seconds=30)) as pool:
        yield pool


def test_pixels_are_those_that_this_process_would_read(pool, photos):
    for photo in photos[:3]:
        content = encoded(Image.fromarray(photo), "JPEG")
        for size in (SIZE, None):
            expected = read(content).to_bytes(size)
            np.testing.assert_array_equal(pool.picture(content, size).pixels, expected)


def test_bad_pictures_are_refused_in_the_same_words(pool):
    for content in (b"hello", encoded(Image.new("L", (8, 8))), b""):
        with pytest.raises(PictureError) as here:
            read(content)
        with pytest.raises(PictureError) as there:
            pool.picture(content, SIZE)
        assert str(there.value) == str(here.value)


def test_warnings_come_back_too(pool):
    with pytest.warns(UserWarning, match="16 bits per channel"):
        pool.picture(disguises.png(np.zeros((40, 40, 3), int), depth=16), SIZE)


@contextlib.contextmanager
def pool_running(script, *arguments, **settings):
    """A pool of one process that runs another program."""
    begin = subprocess.Popen

    def start(command, **options):
        return begin([sys.executable, "-c", script, command[-1], *arguments], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation.subprocess, "Popen", start)
        with closing(DecodingPool(processes=1, **settings)) as pool:
            yield pool


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
def scripted():
    """A pool whose processes sleep, crash and eat memory on request."""
    with pool_running(STAND_IN, seconds=2) as pool:
        with pytest.raises(PictureError, match="plain"):
            pool.picture(b"anything", SIZE)  # it is up
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
        scripted.picture(attack.encode(), SIZE)
    assert time.monotonic() - started < 4
    scripted.seconds = 10
    with pytest.raises(PictureError, match="plain"):
        scripted.picture(b"anything", SIZE)


def test_no_process_outlives_its_parent(tmp_path):
    code = (
        "import os\n"
        "from coverlock_sdk.images.isolation import DecodingPool\n"
        "pool = DecodingPool(processes=1)\n"
        "try: pool.picture(b'no picture', (64, 64))\n"
        "except Exception: print(pool._idle[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    wait_until_gone(int(done.stdout))


MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
OTHERS = ("JPEG RGB", "JPEG L", "TIFF RGB", "WEBP RGBA", "GIF P")


@pytest.mark.parametrize("kind", [*(f"PNG {mode}" for mode in MODES), *OTHERS])
def test_all_of_a_picture_comes_back_as_this_process_would_read_it(pool, kind):
    kind, mode = kind.split()
    depth = np.uint16 if mode == "I;16" else np.uint8
    values = np.random.default_rng(0).integers(0, np.iinfo(depth).max, (48, 64), dtype=depth)
    image = Image.fromarray(values)
    image = image if mode == "I;16" else image.convert(mode)
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    image.save(file, format=kind, exif=exif, dpi=(72, 72))
    content = file.getvalue()
    given, found = pool.image(content)
    picture, restore = opened(content)
    expected = restore(picture)
    assert (given.mode, given.size, found) == (expected.mode, expected.size, kind)
    assert given.tobytes() == expected.tobytes()
    assert given.info == expected.info


OUTBREAKS = """
import os, socket, subprocess, sys
from coverlock_sdk.images import decoding_process as process
tries = {
    b"file": lambda: open(sys.argv[2]),
    b"folder": lambda: os.listdir("/"),
    b"socket": lambda: socket.socket(),
    b"program": lambda: subprocess.run(["true"]),
    b"fork": os.fork,
    b"exec": lambda: os.execv("/bin/true", ["true"]),
    b"parent": lambda: os.kill(os.getppid(), 0),
}
def read(content, max_pixels, seen_at=None):
    try:
        tries[content]()
    except OSError as error:
        raise process.PictureError(error.strerror)
    raise process.PictureError("it worked")
process.read = read
process.main()
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"),
    reason="the filter of system calls is Linux's",
)
@pytest.mark.parametrize(
    "attempt", ["file", "folder", "socket", "program", "fork", "exec", "parent"]
)
def test_an_attacker_inside_a_decoder_gets_nowhere(tmp_path, attempt):
    """After confine() it could read the key file, open sockets and start programs."""
    secret = tmp_path / "key.json"
    secret.write_text("secret")
    with (
        pool_running(OUTBREAKS, str(secret), seconds=10) as pool,
        pytest.raises(PictureError, match="Operation not permitted"),
    ):
        pool.picture(attempt.encode(), SIZE)


LIES = """
import sys
from coverlock_sdk.images import decoding_process as process
def serve(source, sink):
    sink.write(b"\\n")
    sink.flush()
    source.readline()
    sink.write(sys.argv[2].encode() + b"\\n" + b"x" * 100)
    sink.flush()
process.serve = serve
process.main()
"""


@pytest.mark.parametrize(
    "lie",
    [
        {"size": [64, 47]},
        {"size": [64, 48]},  # with too few pixels
        {"size": [10**6, 10**6]},
        {"size": "xyz"},
        {"size": [64, -48]},
        {"seconds": "a while"},
        {"warnings": [[]]},
        [],
    ],
)
def test_what_a_decoder_says_is_not_believed(lie):
    with (
        pool_running(LIES, json.dumps(lie), seconds=5) as pool,
        pytest.raises(PictureError, match="crashes its decoder"),
    ):
        pool.picture(b"anything", SIZE)


def test_who_holds_much_leaves_something_for_others():
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
    assert order == ["greedy"]
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


@pytest.mark.parametrize(("colluders", "spared"), [(2, 1), (4, 4)])
def test_several_who_collude_leave_something_for_others(colluders, spared):
    """Four tokens filled every place with small pictures, and a fifth was refused."""
    turns = Turns(16, spared=spared)
    with contextlib.ExitStack() as held:
        for name in range(colluders):
            turns.charge(name, 1.0)
            with contextlib.suppress(OverloadedError):
                while True:
                    held.enter_context(turns.turn(name, 0))
        with turns.turn("light", 1):
            pass


def test_who_had_less_work_done_goes_first():
    turns, order = Turns(1), []
    turns.charge("heavy", 5.0)
    turns.charge("light", 0.1)

    def wait(name: str) -> None:
        with turns.turn(name, 10):
            order.append(name)

    with turns.turn("somebody", 1):
        threads = [threading.Thread(target=wait, args=[n]) for n in ("heavy", "heavy", "light")]
        for thread in threads:
            thread.start()
            time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert order == ["light", "heavy", "heavy"]


def test_a_large_request_is_not_kept_waiting_by_small_ones():
    turns = Turns(4)
    large = threading.Event()

    def wait_for_all() -> None:
        with turns.turn("large", 10, size=4):
            large.set()

    with turns.turn("small", 1):
        thread = threading.Thread(target=wait_for_all)
        thread.start()
        time.sleep(0.05)
        with pytest.raises(OverloadedError), turns.turn("other", 0.05):
            pass
    thread.join()
    assert large.is_set()
