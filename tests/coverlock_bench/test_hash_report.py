from __future__ import annotations

import hashlib
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.hashes import hash_report
from coverlock_bench.hashes.codes import CHANGES, PLACED, codes_of, views_of
from coverlock_bench.hashes.hash_report import code_figures, fair_coins, similar_pairs
from coverlock_bench.hashes.weights import weights_of, weights_of_defenses
from coverlock_bench.trial import floats
from coverlock_sdk import ImageHash, hookimpl, load_hash
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.hashing.dinov2 import Dinov2Hash
from coverlock_sdk.hashing.shipped import shipped_file
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_manager import plugin_manager
from experiments.tables import render


@pytest.fixture(autouse=True)
def _fresh_plugins():
    plugin_manager.cache_clear()
    yield
    plugin_manager.cache_clear()


@pytest.fixture
def folder(photo_folder, monkeypatch):
    """Photos for reports in which a hash is timed twice, not a hundred times."""
    monkeypatch.setattr(hash_report, "TIMINGS", 2)
    return photo_folder


@pytest.fixture
def coins():
    """Codes of 60 pictures that no distortion changes."""
    codes = np.random.default_rng(0).random((60, 1, 256)) < 0.5
    return np.repeat(codes, 1 + len(CHANGES), axis=1)


def bench(folder, *options):
    arguments = ["bench", "hash", "--images", str(folder), "-o", "hash.json", *options]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    return json.loads((folder.parent / "hash.json").read_text()), result


def test_a_report_has_every_figure_of_every_hash_named(folder):
    document, result = bench(folder, "--hash", "octave", "--count", "3")
    assert document["command"] == "bench hash"
    assert document["config"]["photos"] == 3
    assert document["config"]["thresholds"]["256"] == 167
    assert list(document["figures"]["hashes"]) == ["octave"]
    octave = document["figures"]["hashes"]["octave"]
    assert list(octave["bit_error"]) == list(CHANGES)
    assert octave["bit_error"]["jpeg"] < octave["bit_error"]["flip"]
    assert octave["different"]["pairs"] == sum(octave["different"]["match_histogram"]) == 3
    assert list(octave["similar"]["accepted"]) == ["30", "64", "100", "256"]
    assert (octave["dimensions"], octave["parameters"] > 100_000) == (1024, True)
    assert octave["milliseconds"] > 0
    assert "| octave |" in result.output


def test_a_hash_that_registers_is_told_the_part_that_a_picture_shows(photos):
    square = np.asarray(Image.fromarray(photos[0]).resize((400, 400)))
    views = views_of(square, [0], PLACED)
    sides = [view.frame.side for view in views]
    assert sides == pytest.approx([1, 0.9**0.5, 0.8**0.5, 0.95], abs=0.01)
    assert (views[1].frame.x, views[1].frame.y) != (0.5, 0.5)
    assert views[3].frame.turn == 3
    told = codes_of(load_hash("octave"), views)
    untold = codes_of(load_hash("octave"), [view._replace(frame=views[0].frame) for view in views])
    assert ((told[1:] != told[0]).mean(axis=1) < 0.1).all()
    assert ((untold[1:] != untold[0]).mean(axis=1) > 0.2).all()


def test_a_second_run_reads_the_codes_that_were_kept(folder, monkeypatch):
    first, _ = bench(folder, "--hash", "octave")
    hashed = []

    def spied(square, seed):
        hashed.append(seed[1])
        return views_of(square, seed)

    monkeypatch.setattr(hash_report, "views_of", spied)
    second, _ = bench(folder, "--hash", "octave")
    assert hashed == [0]  # which tells that nothing has changed
    rows = [document["figures"]["hashes"]["octave"] for document in (first, second)]
    assert rows[0]["bit_error"] == rows[1]["bit_error"]
    assert rows[0]["different"] == rows[1]["different"]
    bench(folder, "--hash", "octave", "--seed", "1")
    assert hashed == [0, 0, 0, 1, 2, 3]


def test_hashes_that_cannot_run_here_are_left_out_and_named(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))  # no network is here either

    class Absent(ImageHash):
        name = "absent"
        input_size = (64, 64)

        def logits(self, images):
            raise MissingModelError("its weights are somewhere else")

    class Plugin:
        @hookimpl
        def register_hashes(self, register):
            register(Absent)

    plugin_manager().add("absent", Plugin())
    document, result = bench(folder)
    assert document["figures"]["left_out"]["absent"] == "its weights are somewhere else"
    assert "octave" in document["figures"]["hashes"]
    assert "left out: absent, since its weights are somewhere else" in result.output


def test_result_files_pin_the_weights_of_every_hash(tmp_path):
    class Headed(ImageHash):
        name, input_size, folder = "dinov2-s", (64, 64), tmp_path

        def logits(self, images):
            raise NotImplementedError

    Headed.__module__ = Dinov2Hash.__module__  # the head that ships is beside that module
    (tmp_path / "model.safetensors").write_bytes(b"backbone")
    assert list(weights_of(Headed())) == ["model.safetensors", "dinov2-s-head.safetensors"]
    (tmp_path / "head.safetensors").write_bytes(b"head")  # one's own goes before it
    assert weights_of(Headed()) == {
        "head.safetensors": hashlib.sha256(b"head").hexdigest(),
        "model.safetensors": hashlib.sha256(b"backbone").hexdigest(),
    }
    octave = shipped_file("octave.safetensors").read_bytes()
    expected = {"octave": {"octave.safetensors": hashlib.sha256(octave).hexdigest()}}
    assert weights_of_defenses(["none", "coverlock"]) == expected


def test_one_picture_has_no_pairs(folder):
    for extra in sorted(folder.iterdir())[1:]:
        extra.unlink()
    arguments = ["bench", "hash", "--images", str(folder), "-o", "hash.json"]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 2
    assert "at least two" in " ".join(result.output.split())


def test_bit_errors_are_counted_by_distortion(coins):
    row = 1 + list(EVALUATION).index("crop")
    coins[:, row, :64] ^= True
    coins[:, -1, :128] ^= True
    figures = code_figures(coins, np.array([[0, 1]]))
    assert figures["bit_error"]["crop"] == 0.25
    assert figures["bit_error"]["turn-3"] == 0.5
    assert figures["bit_error"]["jpeg"] == 0
    assert figures["bit_error_mean_of_six"] == pytest.approx(0.25 / 6)


def test_fair_coins_look_like_fair_coins(coins):
    figures, expected = code_figures(coins, np.array([[0, 1]])), fair_coins()
    assert figures["different"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert figures["different"]["std"] == pytest.approx(expected["std"], rel=0.1)
    assert not any(figures["different"]["accepted"].values())


def test_short_messages_are_locked_by_the_first_bits(coins):
    coins[1] = ~coins[0]
    coins[1][:, :30] = coins[0][:, :30]
    accepted = code_figures(coins, np.array([[0, 1]]))["similar"]["accepted"]
    assert accepted == {"30": 1, "64": 0, "100": 0, "256": 0}


def test_a_pair_is_accepted_from_the_threshold_on(coins):
    coins[1] = coins[0]
    coins[1, :, : 256 - 167] ^= True
    coins[2] = coins[1]
    coins[2, :, 256 - 167] ^= True
    at, below = (code_figures(coins, np.array([[0, k]]))["similar"] for k in (1, 2))
    assert (at["accepted"]["256"], below["accepted"]["256"]) == (1, 0)
    assert at["mean"] == 167 / 256


def test_similar_pictures_are_found_without_any_hash(folder, photos):
    brighter = np.clip(photos[2] * 1.1, 0, 255).astype(np.uint8)
    Image.fromarray(brighter).save(folder / "9.png")
    pairs = similar_pairs(sorted(folder.iterdir()))
    assert [2, 4] in pairs.tolist()
    assert (pairs[:, 0] < pairs[:, 1]).all()


@pytest.mark.parametrize(("name", "package"), [("phash", "imagehash"), ("pdq", "pdqhash")])
def test_baselines_are_those_of_their_packages(name, package, photos, monkeypatch):
    module = pytest.importorskip(package)
    squares = np.stack([np.asarray(Image.fromarray(p).resize((256, 256))) for p in photos])
    if name == "phash":
        expected = [module.phash(Image.fromarray(p), hash_size=16).hash.ravel() for p in squares]
    else:
        expected = [module.compute(p)[0] for p in squares]
    codes = load_hash(name).logits(floats(squares)) > 0
    np.testing.assert_array_equal(codes, np.array(expected, dtype=bool))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingModelError, match=r"pip install 'coverlock-sdk\[bench\]'"):
        load_hash(name)


def test_tables_show_the_report(folder):
    bench(folder, "--hash", "octave")
    for name, expected in {
        "hash": "| fair coins |",
        "hash-distortions": "| rotation |",
        "hash-lengths": "| octave | 6 different |",
    }.items():
        assert expected in render(f"<!-- table: {name} -->\n<!-- end of table -->", folder.parent)
