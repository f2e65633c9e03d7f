"""The page's arithmetic is Python's: every module that needs no browser, run by Node."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest

from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.calibration import MAX_CONFIDENCE, Calibration
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keys import PUBLIC_SECRET, bit_selection, codeword
from coverlock_sdk.locking.lock_format import LockFormat
from coverlock_sdk.locking.statistics import MAX_WEIGHT, soft_tail
from coverlock_web.inlining import PAGE

node = shutil.which("node")
pytestmark = pytest.mark.skipif(node is None, reason="Node is not installed")


def run(module: str, program: str, given: object) -> object:
    """What ``program`` prints, given the module as ``m`` and a value as ``given``."""
    code = (
        f"import * as m from {json.dumps((PAGE / module).as_uri())};"
        'import {readFileSync} from "node:fs";'
        'const given = JSON.parse(readFileSync(0, "utf8"));'
        f"console.log(JSON.stringify((() => {{ {program} }})()));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("length", [0, 3, 55, 56, 63, 64, 65, 1000])
def test_digests_are_those_of_hashlib(length: int) -> None:
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


def test_identifiers_have_the_same_codewords() -> None:
    identifiers = ["", "acme-photos", "Zürich 東京 🐈", "x" * 300]
    program = "return given.names.map((n) => Array.from(m.codeword(n, 300, given.key)))"
    words = run("messages.js", program, {"names": identifiers, "key": PUBLIC_SECRET.decode()})
    assert words == [codeword(name, None, 300).tolist() for name in identifiers]


def test_the_tail_of_weighted_coins_is_the_same_to_the_last_digit() -> None:
    weights = np.random.default_rng(0).integers(0, 65, 64)
    tail = run("statistics.js", "return Array.from(m.softTail(given))", weights.tolist())
    assert tail == soft_tail(weights).tolist()


@pytest.mark.parametrize("rule", ["soft", "hard"])
@pytest.mark.parametrize(("payload_bits", "floor"), [(32, None), (64, 0.9), (300, None)])
def test_verdicts_are_those_of_the_judge(rule: str, payload_bits: int, floor: float | None) -> None:
    rng = np.random.default_rng(payload_bits)
    layout = LockFormat(payload_bits, Calibration(1.7, 0.8), Calibration(3.1, 0.6))
    message = codeword("acme-photos", None, layout.bits)
    judges = {
        True: Judge(layout, None, 1e-6, rule, floor),
        False: Judge(LockFormat(payload_bits, layout.decoder, None), None, 1e-6, rule),
    }
    bare = codeword("acme-photos", None, judges[False].bits)
    pictures, expected = [], []
    for flips in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5):
        hashed = rng.standard_normal((1, CODE_BITS)).astype(np.float32)
        code = hashed[0, bit_selection(None, CODE_BITS, layout.bits)] > 0
        payload = layout.payload(message[None], code[None].astype(np.uint8))[0]
        payload = payload ^ (rng.random(payload_bits) < flips)
        size = rng.exponential(1.0, payload_bits)
        decoded = ((2.0 * payload - 1) * size).astype(np.float32)[None]
        pictures.append({"decoded": decoded[0].tolist(), "hashed": hashed[0].tolist()})
        expected.append(judges[True].verify(decoded, hashed, [message])[0])
        expected.append(judges[False].verify(decoded, hashed, [bare])[0])
    layout_in_the_page = {
        "bits": layout.bits,
        "decoder": vars(layout.decoder),
        "hash": vars(layout.hash),
        "selection": bit_selection(None, CODE_BITS, layout.bits).tolist(),
        "maxConfidence": MAX_CONFIDENCE,
        "maxWeight": MAX_WEIGHT,
        "floor": judges[True].floor,
        "fpr": 1e-6,
        "rule": rule,
    }
    program = (
        "return given.pictures.flatMap((picture) => [[given.message, true], [given.bare, false]]"
        ".map(([message, locked]) => m.judge(given.format, picture, message, {locked})))"
    )
    messages = {"message": message.tolist(), "bare": bare.tolist()}
    given = {"format": layout_in_the_page, "pictures": pictures, **messages}
    for verdict, judged in zip(run("lock.js", program, given), expected, strict=True):
        assert verdict["accepted"] == judged.accepted
        assert verdict["matched"] == judged.matches
        assert verdict["pValue"] == pytest.approx(judged.p_value, rel=1e-9)
        assert verdict["agreement"] == pytest.approx(judged.agreement, rel=1e-12)
    assert {judged.accepted for judged in expected} == {True, False}


@pytest.mark.parametrize("size", [(256, 256), (300, 200), (97, 333), (512, 512), (40, 32)])
def test_pictures_are_resampled_alike(size: tuple[int, int]) -> None:
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


def test_a_transplanted_mark_is_added_and_clipped() -> None:
    program = (
        "const target = {pixels: Uint8Array.of(0, 100, 250), height: 1, width: 1};"
        "const lifted = m.difference({pixels: [5, 0, 20]}, {pixels: [15, 2, 10]});"
        "return [Array.from(lifted), Array.from(m.transplanted(target, lifted).pixels)]"
    )
    assert run("residual.js", program, None) == [[-10, -2, 10], [0, 98, 255]]
