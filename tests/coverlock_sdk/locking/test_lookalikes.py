from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from coverlock_sdk import load_hash, wrap
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CorruptModelError, IndistinctPictureError, LookalikeWarning
from coverlock_sdk.hashing.crowd import Crowd, crowd_of, probe_of
from coverlock_sdk.locking.lookalikes import Census
from tests.conftest import AdditiveMark


@pytest.fixture
def code(tmp_path):
    """One more QR code of a template that the crowd has eight of: all alike to ``nano``."""
    pytest.importorskip("matplotlib")
    from coverlock_sdk.training.kinds.catalogue import KINDS

    drawn = KINDS["QR codes"].draw("training", 0, 100, lambda rng: Image.new("RGB", (64, 64)))
    drawn.save(tmp_path / "code.png")
    return tmp_path / "code.png"


def gaussian_crowd(logits, correlations, rng):
    """Codes of pictures whose logits correlate with ``logits`` so far."""
    noise = rng.standard_normal((len(correlations), logits.size))
    rho = np.array(correlations)[:, None]
    others = rho * logits + np.sqrt(1 - rho**2) * noise
    codes, kind = (others > 0).astype(np.uint8), np.zeros(len(rho), np.uint8)
    return Crowd.of(codes, kind, ("any",), np.zeros(32, np.uint8)), others


@pytest.mark.parametrize("rule", ["hard", "soft"])
@pytest.mark.parametrize("keyed", [False, True])
def test_the_estimate_is_the_number_that_would_be_accepted(additive, key, rule, keyed):
    lock = wrap(additive, key=key if keyed else None, rule=rule)
    rng = np.random.default_rng(0)
    logits = rng.standard_normal(256).astype(np.float32)
    crowd, others = gaussian_crowd(logits, np.repeat([0.0, 0.5, 0.8, 0.9, 0.98], 200), rng)
    terms = lock.judge.terms("studio", lock.keys[0])
    salt = lock.format.stablest_salt(logits[None], terms.code_map)

    found = Census(lock.judge, lambda: crowd).lookalikes(logits, terms, salt)

    # A perfect forgery carries the payload of the source, read surely, to a picture of the crowd.
    payload = terms.message ^ lock.format.code(logits[None], terms.code_map, salt)[0]
    decoded = np.tile(40.0 * payload - 20, (len(others), 1)).astype(np.float32)
    verdicts = lock.judge.verify(decoded, others.astype(np.float32), ["studio"] * len(others))
    accepted = sum(verdict.accepted for verdict in verdicts)
    assert found.expected == pytest.approx(accepted, rel=0.35, abs=10)
    assert found.kinds == {"any": found.count}


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_a_closer_crowd_has_no_fewer_lookalikes(seed):
    lock = wrap(AdditiveMark())
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(256).astype(np.float32)
    terms = lock.judge.terms("studio", None)
    near, _ = gaussian_crowd(logits, np.full(50, 0.95), rng)
    far, _ = gaussian_crowd(logits, np.full(50, 0.3), rng)
    counts = [
        Census(lock.judge, lambda crowd=crowd: crowd).lookalikes(logits, terms, 0)
        for crowd in (far, near)
    ]
    assert 0 <= counts[0].expected <= counts[1].expected <= 50
    assert counts[0].closest <= 1


def test_a_crowd_survives_a_file_and_a_damaged_one_is_refused(tmp_path):
    codes = np.random.default_rng(0).integers(0, 2, (5, 256), dtype=np.uint8)
    kind, probe = np.array([0, 0, 1, 1, 1], np.uint8), np.zeros(32, np.uint8)
    crowd = Crowd.of(codes, kind, ("photos", "forms"), probe)
    crowd.save(tmp_path / "crowd.safetensors")
    again = Crowd.load(tmp_path / "crowd.safetensors")
    assert again.kinds == ("photos", "forms")
    np.testing.assert_array_equal(again.packed, crowd.packed)
    np.testing.assert_array_equal(again.matches(codes[2] - 0.5), (codes == codes[2]).sum(axis=1))
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(CorruptModelError, match="coverlock train crowd"):
        Crowd.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("name", ["nano", "keen", "duo"])
def test_shipped_crowds_are_small_and_of_every_kind(name):
    crowd = crowd_of(load_hash(name))
    assert crowd is not None
    assert len(crowd) >= 4000
    assert len(crowd.kinds) >= 20
    assert crowd.packed.nbytes + crowd.kind.nbytes < 200_000


def test_a_crowd_of_other_weights_is_not_used(tmp_path):
    image_hash = load_hash("dct")
    image_hash.folder = tmp_path
    shipped = crowd_of(load_hash("nano"))
    shipped.save(tmp_path / "crowd.safetensors")
    assert crowd_of(image_hash) is None
    (tmp_path / "own").mkdir()
    replace(shipped, probe=probe_of(image_hash)).save(tmp_path / "own" / "crowd.safetensors")
    image_hash.folder = tmp_path / "own"
    assert len(crowd_of(image_hash)) == len(shipped)


def test_the_estimate_takes_less_than_a_millisecond(additive, photos):
    lock = wrap(additive)
    terms = lock.judge.terms("studio", None)
    _, hashed = lock.logits(photos[0])
    lock.binder.census.lookalikes(hashed[0], terms, 0)
    times = []
    for _ in range(30):
        start = time.process_time()
        lock.binder.census.lookalikes(hashed[0], terms, 0)
        times.append(time.process_time() - start)
    assert min(times) < 0.002  # with room for a busy machine


def test_photos_have_hardly_any_lookalikes_and_codes_have_many(additive, code, photos):
    lock = wrap(additive, hash="nano")
    with pytest.warns(LookalikeWarning, match="other pictures would pass for this one"):
        lock.embed(code, "studio", code.with_name("out.png"))
    marked = lock.mark(code, "studio")
    assert marked.lookalikes.count > 5
    assert max(marked.lookalikes.kinds, key=marked.lookalikes.kinds.get) == "QR codes"
    assert np.mean([lock.mark(photo, "studio").lookalikes.expected for photo in photos[:3]]) < 3
    assert set(marked.lookalikes.kinds) <= set(crowd_of(load_hash("nano")).kinds)


def test_strict_marking_writes_nothing(additive, code):
    out = code.with_name("out.png")
    with pytest.raises(IndistinctPictureError, match="is not marked"):
        wrap(additive, hash="nano").mark_file(code, "studio", out, strict=True)
    assert not out.exists()


@pytest.mark.usefixtures("additive_plugin")
def test_the_command_line_warns_or_refuses(code):
    out = code.with_name("out.png")
    arguments = ["embed", str(code), "-w", "additive", "--hash", "nano", "--id", "studio"]
    arguments += ["-o", str(out), "--json"]
    refused = CliRunner().invoke(build_cli(), [*arguments, "--strict"])
    assert refused.exit_code == 2
    assert not out.exists()
    assert "would pass for this one" in json.loads(refused.stdout)["results"][0]["error"]
    marked = CliRunner().invoke(build_cli(), arguments)
    assert marked.exit_code == 0
    [row] = json.loads(marked.stdout)["results"]
    assert row["lookalikes"]["expected"] > 5
    assert any("would pass for this one" in warning for warning in row["warnings"])
