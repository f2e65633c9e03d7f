"""The page's arithmetic is Python's: every module that needs no browser, run by Node."""

import base64
import json
import shutil
import subprocess
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.hashing.views import View, rows_of
from coverlock_sdk.images.picture import Picture, placed
from coverlock_sdk.locking import registration
from coverlock_sdk.locking.keys import PUBLIC_SECRET, codeword
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.statistics import soft_tail
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.testing import natural_pictures
from coverlock_web.inlining import PAGE
from coverlock_web.lock_settings import lock_numbers, lock_settings, registration_settings

node = shutil.which("node")
pytestmark = pytest.mark.skipif(node is None, reason="Node is not installed")

OPENED = (
    f"const {{ matricesOf }} = await import({json.dumps((PAGE / 'matrices.js').as_uri())});"
    f"const {{ Octave }} = await import({json.dumps((PAGE / 'octave.js').as_uri())});"
    'const bytes = new Uint8Array(Buffer.from(given.numbers, "base64"));'
    "const matrices = matricesOf(bytes, given.settings.matrices);"
    "const directions = matrices.splice(0, given.settings.hash.bands.length);"
    "const octave = given.settings.octave && new Octave(given.settings.octave, matrices);"
)
"""Makes ``octave`` and the public map of what ``opened`` gives."""


def run(module: str, program: str, given: object) -> Any:
    """What ``program`` returns, given the module as ``m`` and a value as ``given``."""
    code = (
        f"import * as m from {json.dumps((PAGE / module).as_uri())};"
        'import {readFileSync} from "node:fs";'
        'const given = JSON.parse(readFileSync(0, "utf8"));'
        f"console.log(JSON.stringify(await (async () => {{ {program} }})()));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def opened(lock: Lock, **given: object) -> dict[str, object]:
    numbers = base64.b64encode(lock_numbers(lock)).decode()
    return {"settings": lock_settings(lock), "numbers": numbers, **given}


@lru_cache(maxsize=4)
def photos(count: int, seed: int) -> list[Image.Image]:
    return [Image.fromarray(picture) for picture in natural_pictures(count, (320, 400), seed=seed)]


def thumbnail(photo: Image.Image) -> np.ndarray:
    """What a graph returns for the hash: (3, 128, 128) in single precision."""
    return Picture(np.asarray(photo)).view((128, 128))


def cropped(photo: Image.Image, frame: Frame) -> Image.Image:
    """What is left of a photo in a frame."""
    width, height = photo.size
    turned = photo.rotate(frame.turn, Image.Resampling.BICUBIC)
    box = [
        *((frame.x - frame.side / 2) * width, (frame.y - frame.side / 2) * height),
        *((frame.x + frame.side / 2) * width, (frame.y + frame.side / 2) * height),
    ]
    return turned.resize((256, 256), Image.Resampling.BICUBIC, box=box)


@pytest.mark.parametrize("length", [0, 3, 55, 56, 63, 64, 65, 1000])
def test_digests_are_those_of_hashlib(length):
    import hashlib
    import hmac

    content = bytes(np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8))
    program = (
        "const bytes = Uint8Array.from(given);"
        "return [m.hex(m.sha256(bytes)), m.hex(m.hmac(Uint8Array.of(1, 2, 3), bytes))]"
    )
    assert run("sha256.js", program, list(content)) == [
        hashlib.sha256(content).hexdigest(),
        hmac.new(b"\1\2\3", content, "sha256").hexdigest(),
    ]


def test_identifiers_have_the_same_codewords():
    identifiers = ["acme-photos", "Zürich 東京 🐈", "x" * 300]
    program = "return given.names.map((n) => Array.from(m.codeword(n, 300, given.key)))"
    words = run("messages.js", program, {"names": identifiers, "key": PUBLIC_SECRET.decode()})
    assert words == [codeword(name, None, 300).tolist() for name in identifiers]


def test_the_tail_of_weighted_coins_is_the_same_to_the_last_digit():
    weights = np.random.default_rng(0).integers(0, 65, 64)
    program = "return [0.5, 0.75].map((heads) => Array.from(m.softTail(given, heads)))"
    tails = run("statistics.js", program, weights.tolist())
    assert tails == [soft_tail(weights, heads).tolist() for heads in (0.5, 0.75)]


FRAMES = (
    WHOLE,
    Frame(0.9),
    Frame(0.8, 0.45, 0.56),
    Frame(0.8, 0.45, 0.52),
    Frame(0.93, turn=2.5, aspect=1.25),
    Frame(0.9, 0.49, 0.52, -4.0, aspect=1.25),
)


@pytest.mark.parametrize(("bands", "size"), [(1, 32), (2, 64), (3, 128), (3, None)])
def test_codes_of_frames_are_those_of_the_hash(bands, size):
    image_hash = OctaveCode()
    view = thumbnail(photos(2, 5)[0])
    program = (
        f"{OPENED} const view = octave.view(given.view, given.aspect);"
        "const codes = octave.framed(view, given.frames, given.bands, given.size);"
        "return codes.map(({numbers}) => Array.from(numbers))"
    )
    frames = [frame._asdict() for frame in FRAMES]
    lock = Lock(64, Calibration(), image_hash)
    given = {"view": view.ravel().tolist(), "aspect": 1.25, "bands": bands, "size": size}
    parts = run("octave.js", program, opened(lock, **given, frames=frames))
    codes = np.concatenate([np.reshape(part, (len(FRAMES), -1)) for part in parts], axis=1)
    expected = image_hash.framed(View(view, 1.25), rows_of(*FRAMES), bands, size)
    assert codes == pytest.approx(expected, rel=0, abs=2e-5 * float(np.abs(expected).max()))


def test_frames_weigh_the_same():
    frames = [Frame(*row) for family in registration.families() for row in family.frames]
    frames += [WHOLE, Frame(0.9, 0.503, 0.5), Frame(0.75, 0.6, 0.44), Frame(0.999, 0.4, 0.5)]
    program = "return given.frames.map((frame) => m.weightOf(frame, given.settings))"
    given = {"frames": [f._asdict() for f in frames], "settings": registration_settings()}
    weights = run("registration.js", program, given)
    assert weights == pytest.approx([registration.weight_of(f) for f in frames], rel=1e-12)


SEARCHED = (
    f"{OPENED} const {{ aspect, wanted, settings }} = given;"
    "const view = octave.view(given.view, aspect);"
    "const search = new m.Search(octave, view, directions, wanted, settings.registration);"
    "const found = search.best(given.leastWeight);"
    "return [...found, search.near(found[0])]"
)


@pytest.mark.parametrize("least_weight", [0.0, 1e-4])
@pytest.mark.parametrize("frame", FRAMES)
def test_searches_end_in_the_same_frames(frame, least_weight):
    lock, photo = Lock(256, Calibration(), OctaveCode()), photos(2, 5)[1]
    code = lock.terms("acme-photos", None).code_map
    wanted = np.tanh(code.seen(lock.hash.code(thumbnail(photo)))[0])
    view = thumbnail(cropped(photo, frame))
    aspect = photo.width / photo.height
    search = registration.Search(
        lock.hash, View(view, aspect), registration.PayloadTarget(code, wanted)
    )
    expected = search.best(least_weight)
    expected.append(search.near(expected[0]))
    given = {"view": view.ravel().tolist(), "aspect": aspect, "wanted": wanted[0].tolist()}
    found = run("registration.js", SEARCHED, opened(lock, **given, leastWeight=least_weight))
    assert len(found) == len(expected)
    for shown, wanted in zip(found, expected, strict=True):
        assert moved(shown["frame"], wanted.frame) < 1e-5
        assert shown["weight"] == pytest.approx(wanted.weight)


def assert_same(shown: dict[str, Any], verdict: Verdict) -> None:
    assert shown["accepted"] == verdict.accepted
    assert shown["reason"] == verdict.reason
    if not verdict.accepted:
        # Where nothing fits, which frame fits least badly hangs on the last digits.
        assert shown["pValue"] == pytest.approx(verdict.p_value, rel=0.1)
        return
    assert shown["matched"] == verdict.matches
    assert shown["pValue"] == pytest.approx(verdict.p_value, rel=1e-6)
    assert shown["agreement"] == pytest.approx(verdict.agreement, rel=1e-9)
    assert shown["floor"] == pytest.approx(verdict.floor, rel=1e-9)


def decoded_of(payload: np.ndarray, flips: float, seed: int) -> np.ndarray:
    """Logits of a payload of which a share was read wrongly."""
    rng = np.random.default_rng(seed)
    read = payload ^ (rng.random(len(payload)) < flips)
    return ((2.0 * read - 1) * rng.exponential(3.0, len(payload))).astype(np.float32)


VERIFIED = (
    f"{OPENED} const lock = new m.Lock(given.settings, directions, octave);"
    "const { aspect, again } = given, decode = again && (() => again);"
    "return Promise.all(given.pictures.map(({decoded, description}) =>"
    "lock.verify(decoded, Float32Array.from(description), given.message, { aspect, decode })))"
)


class Again(NamedTuple):
    """Looks at pictures of one aspect, whose logits are the same in every place."""

    width_over_height: float
    logits: np.ndarray

    def aspect(self, row: int) -> float:
        return self.width_over_height

    def placed(self, row: int, frame: Frame) -> np.ndarray:
        return self.logits


def compare(
    lock: Lock, decoded: list[np.ndarray], views: list[np.ndarray], looks: Again | None = None
) -> list[Verdict]:
    """The verdicts on pictures for "acme-photos", once the page gave the same."""
    pictures = [
        {"decoded": logits.tolist(), "description": view.ravel().tolist()}
        for logits, view in zip(decoded, views, strict=True)
    ]
    message = codeword("acme-photos", None, lock.bits).tolist()
    given: dict[str, Any] = {"pictures": pictures, "message": message}
    if looks is not None:
        given |= {"aspect": looks.width_over_height, "again": looks.logits.tolist()}
    found = run("lock.js", VERIFIED, opened(lock, **given))
    verdicts = lock.verify(np.stack(decoded), views, "acme-photos", looks)
    for shown, verdict in zip(found, verdicts, strict=True):
        assert_same(shown, verdict)
        if verdict.frame is None:
            assert shown["frame"] is None
        else:
            assert moved(shown["frame"], verdict.frame) < 1e-5
    return verdicts


def moved(shown: dict[str, float], frame: Frame) -> float:
    """How far two frames are apart; a turn by how far it moves the rim."""
    return float(np.abs(np.subtract(list(shown.values()), frame) * (1, 1, 1, 0.01, 1)).max())


def payload_of(lock: Lock, view: np.ndarray) -> np.ndarray:
    terms = lock.terms("acme-photos", None)
    return lock.payload(terms.message, lock.code(view, terms, 0))


@pytest.mark.parametrize("payload_bits", [48, 256, 300])
def test_verdicts_on_whole_pictures_are_those_of_the_lock(payload_bits):
    lock = Lock(payload_bits, Calibration(1.7, 0.8), OctaveCode())
    view, other = map(thumbnail, photos(2, 5))
    payload = payload_of(lock, view)
    flips = (0.0, 0.05, 0.15)
    decoded = [decoded_of(payload, share, seed) for seed, share in enumerate(flips)]
    verdicts = compare(
        lock, [*decoded, decoded[0], decoded[0]], [view, view, view, other, 0 * view]
    )
    assert verdicts[0]
    assert not verdicts[3]
    assert verdicts[4].reason


@pytest.mark.parametrize(
    ("frame", "flips"),
    [
        (Frame(0.9), 0.02),
        (Frame(0.83), 0.02),
        (Frame(0.85, 0.46, 0.55), 0.3),
        (Frame(0.92, turn=3.0, aspect=1.25), 0.3),
    ],
)
def test_cropped_and_turned_pictures_are_found_in_the_same_frame(frame, flips):
    """A picture whose first reading is weak is read again in its place."""
    lock, photo = Lock(256, Calibration(), OctaveCode()), photos(2, 5)[1]
    payload, view = payload_of(lock, thumbnail(photo)), thumbnail(cropped(photo, frame))
    first, again = decoded_of(payload, flips, 3), decoded_of(payload, 0.02, 4)
    [verdict] = compare(lock, [first], [view], Again(1.25, again))
    assert verdict
    assert moved(frame._asdict(), verdict.frame) < 0.03


@pytest.mark.parametrize("frame", FRAMES[1:])
def test_pictures_are_put_back_in_their_place_alike(frame):
    view = Picture(np.asarray(photos(2, 5)[0])).view((128, 160))
    program = (
        "const view = {height: 128, width: 160, levels: Float32Array.from(given.levels)};"
        "return Array.from(m.placed(view, given.frame).pixels)"
    )
    levels = np.moveaxis(view, 0, -1).ravel().tolist()
    given = {"levels": levels, "frame": frame._asdict()}
    found = np.array(run("placing.js", program, given)).reshape(128, 160, 3)
    wanted = np.moveaxis(placed(view, frame), 0, -1) * 255
    assert np.abs(found - wanted).max() < 0.501


class Logits(ImageHash):
    """A hash whose logits the graph computes."""

    name, input_size, calibration = "logits", (128, 128), Calibration(3.1, 0.6)

    def logits(self, images: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def test_verdicts_by_logits_of_the_graph_are_those_of_the_lock():
    lock = Lock(64, Calibration(1.7, 0.8), Logits())
    hashed = np.random.default_rng(4).standard_normal((2, 256)).astype(np.float32)
    payload = payload_of(lock, hashed[0])
    decoded = [decoded_of(payload, share, 8) for share in (0.0, 0.1, 0.0)]
    verdicts = compare(lock, decoded, [hashed[0], hashed[0], hashed[1]])
    assert {bool(verdict) for verdict in verdicts} == {True, False}


def test_the_watermark_alone_is_judged_alike():
    bare, lock = (Lock(300, Calibration(1.7, 0.8), h) for h in (None, OctaveCode()))
    message = codeword("acme-photos", None, bare.bits)
    program = (
        f"{OPENED} const lock = new m.Lock(given.settings, directions, octave);"
        "return given.decoded.map((logits) => lock.verifyBare(logits, given.message))"
    )
    decoded = [decoded_of(message, share, 1) for share in (0.0, 0.3, 0.5)]
    given = opened(lock, decoded=[d.tolist() for d in decoded], message=message.tolist())
    expected = bare.verify(np.stack(decoded), decoded, "acme-photos")
    for shown, verdict in zip(run("lock.js", program, given), expected, strict=True):
        assert_same(shown, verdict)


@pytest.mark.parametrize("frame", [WHOLE, *FRAMES])
def test_frames_are_named_as_python_names_them(frame):
    text = run("frames.js", "return m.frameText(given)", frame._asdict())
    assert text.replace(" %", "%") == str(frame)


@pytest.mark.parametrize("size", [(256, 256), (300, 200), (97, 333), (512, 512), (40, 32)])
def test_pictures_are_resampled_alike(size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    program = (
        "const {height, width, pixels} = given;"
        "const picture = {height, width, pixels: Uint8Array.from(pixels)};"
        "return Array.from(m.resized(picture, [128, 160]).pixels)"
    )
    given = {"height": size[0], "width": size[1], "pixels": pixels.ravel().tolist()}
    found = np.array(run("resampling.js", program, given)).reshape(128, 160, 3)
    wanted = Picture(pixels).to_bytes((128, 160)).astype(int)
    assert np.abs(found - wanted).max() <= 1
    assert (found != wanted).mean() < 0.0001  # libraries of linear algebra sum in other orders
