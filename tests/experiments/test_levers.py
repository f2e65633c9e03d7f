from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")

from coverlock_bench.adaptive.white_box import Public  # noqa: E402
from coverlock_bench.ledger import Session  # noqa: E402
from coverlock_bench.trial import floats  # noqa: E402
from coverlock_sdk import Key, load_hash  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.plugin_calls import hash_logits  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from experiments import lever_study  # noqa: E402
from experiments.levers import (  # noqa: E402
    GuessedViews,
    KeyedViews,
    Several,
    SeveralHashes,
    instability,
)


@pytest.fixture(scope="module")
def crowd() -> np.ndarray:
    return natural_pictures(4, (128, 128), seed=9)


@pytest.fixture(scope="module")
def images(crowd) -> np.ndarray:
    return floats(crowd)


def test_several_hashes_share_the_code(images):
    both = SeveralHashes(["nano", "dct"]).logits(images) > 0
    parts = [hash_logits(load_hash(name), images)[:, :128] > 0 for name in ("nano", "dct")]
    known = Several((Public("nano"), Public("dct"))).logits(
        torch.from_numpy(images), np.random.default_rng(0)
    )
    # Pictures go through one more resampling inside, so bits at the edge may differ.
    assert (np.concatenate(parts, axis=1) == both).mean() > 0.98
    assert ((known.numpy() > 0) == both).mean() > 0.98


def test_views_depend_on_the_key_and_on_nothing_else(images, key):
    def code(secret: Key) -> np.ndarray:
        return KeyedViews("nano", secret, views=2, least=0.6, covered=0.3).logits(images) > 0

    other = Key(bytes(32), id="other")
    np.testing.assert_array_equal(code(key), code(key))
    assert (code(key) != code(other)).mean() > 0.01


def test_whoever_guesses_everything_sees_the_plain_hash(images):
    guessed = GuessedViews(Public("nano"), views=1, least=1.0, covered=0.0)
    seen = guessed.logits(torch.from_numpy(images), np.random.default_rng(0))
    np.testing.assert_allclose(seen.numpy(), hash_logits(load_hash("nano"), images), atol=1e-3)


def test_a_flat_picture_is_less_stable_than_a_photo(crowd):
    rng, nano = np.random.default_rng(0), load_hash("nano")
    flat = np.full_like(crowd[0], 127)
    assert instability(nano, flat, rng) > instability(nano, crowd[0], rng)


def test_levers_are_measured_once(crowd, tmp_path, monkeypatch):
    monkeypatch.setattr(lever_study, "BUDGETS", (0.0,))
    for index, picture in enumerate(crowd):
        Image.fromarray(picture).save(tmp_path / f"{index}.png")
    photos, session = sorted(tmp_path.glob("*.png")), Session()
    first = lever_study.lever_study(photos, 2, 32, 1e-6, 0, session, only=["none"])
    monkeypatch.setattr(lever_study, "_measure", None)
    assert lever_study.lever_study(photos, 2, 32, 1e-6, 0, session, only=["none"]) == first
    assert first["none"]["forgeries"]["0"]["successes"] == 0
    assert first["none"]["genuine"]["successes"] > 6


def test_a_misspelt_row_is_refused(tmp_path):
    Image.new("RGB", (64, 64)).save(tmp_path / "1.png")
    arguments = ["bench", "levers", "--images", str(tmp_path), "--only", "secret mask"]
    arguments += ["-o", str(tmp_path / "levers.json")]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 2
    assert "there is no lever 'secret mask': use none, key that selects bits" in result.output
    assert not (tmp_path / "levers.json").exists()
