import hashlib
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.hashes import hash_report
from coverlock_bench.hashes.codes import CHANGES, PLACED, codes_of, views_of
from coverlock_bench.hashes.hash_report import similar_pairs
from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.trial import floats
from coverlock_plugins.dinov2.hash import Dinov2Hash
from coverlock_sdk import ImageHash, load_hash
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.plugin_manager import plugin_manager


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
    assert (octave["dimensions"], octave["bytes"] > 100_000) == (1024, True)
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
