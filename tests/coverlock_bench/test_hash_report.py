from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.hashes import hash_report
from coverlock_bench.hashes.hash_report import code_figures, fair_coins, similar_pairs
from coverlock_bench.trial import floats
from coverlock_sdk import ImageHash, hookimpl, load_hash
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.images.distortions import EVALUATION, HARDER
from coverlock_sdk.locking.keys import bit_selection
from coverlock_sdk.plugin_manager import plugin_manager
from experiments.doc_tables import render

VIEWS = 1 + len(EVALUATION) + len(HARDER)


@pytest.fixture(autouse=True)
def _fresh_plugins():
    plugin_manager.cache_clear()
    yield
    plugin_manager.cache_clear()


@pytest.fixture
def folder(tmp_path, photos, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for index, photo in enumerate(photos[:4]):
        Image.fromarray(photo).save(tmp_path / "photos" / f"{index}.png")
    return tmp_path / "photos"


@pytest.fixture
def coins():
    """Codes of 60 pictures that no distortion changes."""
    codes = np.random.default_rng(0).random((60, 1, 256)) < 0.5
    return np.repeat(codes, VIEWS, axis=1)


def bench(folder, *options):
    arguments = ["bench", "hash", "--images", str(folder), "-o", "hash.json", *options]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    return json.loads((folder.parent / "hash.json").read_text()), result


def test_a_report_has_every_figure_of_every_hash_named(folder):
    pytest.importorskip("matplotlib")
    document, result = bench(folder, "--hash", "dct", "--count", "3", "--picture", "p/hash.png")
    assert document["command"] == "bench hash"
    assert document["config"]["photos"] == 3
    assert document["config"]["thresholds"]["256"] == 167
    assert list(document["figures"]["hashes"]) == ["dct"]
    dct = document["figures"]["hashes"]["dct"]
    assert list(dct["bit_error"]) == [*EVALUATION, *HARDER]
    assert dct["bit_error"]["jpeg"] < dct["bit_error"]["flip"]
    assert dct["different"]["pairs"] == sum(dct["different"]["match_histogram"]) == 3
    assert list(dct["similar"]["accepted"]) == ["30", "32", "64", "100", "256"]
    assert dct["parameters"] > 100_000
    assert dct["bytes"] > 4 * dct["parameters"]
    assert dct["times_dct"] == 1
    assert "| dct |" in result.output
    with Image.open(folder.parent / "p" / "hash.png") as picture:
        assert picture.width > 1000


def test_a_second_run_reads_the_codes_that_were_kept(folder, monkeypatch):
    first, _ = bench(folder, "--hash", "dct")
    distorted = []
    monkeypatch.setattr(hash_report, "_distorted", spy(hash_report._distorted, distorted))
    second, _ = bench(folder, "--hash", "dct")
    assert distorted == ["0.png"]  # which tells that nothing has changed
    rows = [document["figures"]["hashes"]["dct"] for document in (first, second)]
    assert rows[0]["bit_error"] == rows[1]["bit_error"]
    assert rows[0]["different"] == rows[1]["different"]
    bench(folder, "--hash", "dct", "--seed", "1")
    assert distorted == ["0.png", "0.png", "0.png", "1.png", "2.png", "3.png"]


def spy(function, photos):
    def spied(photo, seed):
        photos.append(photo.name)
        return function(photo, seed)

    return spied


def test_hashes_that_cannot_run_here_are_left_out_and_named(folder):
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
    assert "dct" in document["figures"]["hashes"]
    assert "left out: absent, since its weights are somewhere else" in result.output


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
    assert figures["bit_error"][list(HARDER)[-1]] == 0.5
    assert figures["bit_error"]["jpeg"] == 0
    assert figures["bit_error_mean_of_six"] == pytest.approx(0.25 / 6)


def test_fair_coins_look_like_fair_coins(coins):
    figures, expected = code_figures(coins, np.array([[0, 1]])), fair_coins(len(coins))
    for name in ("imbalance", "correlation"):
        assert figures[name] == pytest.approx(expected[name], rel=0.1)
    assert figures["different"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert figures["different"]["std"] == pytest.approx(expected["std"], rel=0.1)
    assert not any(figures["different"]["accepted"].values())


def test_constant_and_repeated_bits_show(coins):
    coins[:, :, 0] = True
    coins[:, :, 2] = ~coins[:, :, 1]
    assert code_figures(coins, np.array([[0, 1]]))["constant_bits"] == 1
    coins[:] = coins[:, :, 1:2]
    figures = code_figures(coins, np.array([[0, 1]]))
    assert figures["correlation"] == pytest.approx(1)
    assert figures["constant_bits"] == 0


def test_a_pair_is_accepted_from_the_threshold_on(coins):
    coins[1] = coins[0]
    coins[1, :, : 256 - 167] ^= True
    coins[2] = coins[1]
    coins[2, :, 256 - 167] ^= True
    at, below = (code_figures(coins, np.array([[0, k]]))["similar"] for k in (1, 2))
    assert (at["accepted"]["256"], below["accepted"]["256"]) == (1, 0)
    assert at["mean"] == 167 / 256


def test_short_messages_are_locked_with_the_bits_of_the_public_key(coins):
    coins[1] = ~coins[0]
    chosen = bit_selection(None, 256, 30)
    coins[1][:, chosen] = coins[0][:, chosen]
    accepted = code_figures(coins, np.array([[0, 1]]))["similar"]["accepted"]
    assert accepted == {"30": 1, "32": 1, "64": 0, "100": 0, "256": 0}


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
    bench(folder, "--hash", "dct")
    for name, expected in {
        "hash": "| fair coins |",
        "hash-distortions": "| rotation |",
        "hash-lengths": "| dct | 6 different |",
    }.items():
        assert expected in render(f"<!-- table: {name} -->\n<!-- end of table -->", folder.parent)
