"""A watermark that takes pictures of their own size, as blind and transform-domain ones do."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.auditing import presets
from coverlock_sdk import Watermark, hookimpl
from coverlock_sdk.cli import build_cli
from coverlock_sdk.images.distortions import Jpeg
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures

pytest.importorskip("jinja2")
pytest.importorskip("scipy")
pytest.importorskip("skimage")

TINY = presets.Preset(
    name="tiny",
    pairs=4,
    attacks={"gt": 4},
    rt_sources=(1, 4, 1000),
    rt_targets=3,
    rt_messages=2,
)


class Checkers(Watermark):
    """Each bit brightens or darkens the black squares of its own share of the rows."""

    name = "checkers"
    bits = 32
    native_size = None

    def __init__(self, strength: float = 0.02) -> None:
        self.strength = strength

    def _board(self, height, width):
        return 1.0 - 2.0 * (np.add.outer(np.arange(height), np.arange(width)) % 2)

    def embed(self, images, payloads):
        height, width = images.shape[-2:]
        rows = (2.0 * payloads - 1)[:, np.arange(height) * self.bits // height]
        mark = self.strength * rows[:, None, :, None] * self._board(height, width)
        return np.clip(images + mark, 0, 1)

    def decode(self, images):
        height, width = images.shape[-2:]
        seen = (images.mean(axis=1) * self._board(height, width)).mean(axis=2)
        shares = np.arange(height) * self.bits // height
        return np.stack([seen[:, shares == bit].mean(axis=1) for bit in range(self.bits)], axis=1)


class Plugin:
    @hookimpl
    def register_watermarks(self, register):
        register(Checkers)

    @hookimpl
    def register_distortions(self, register):
        register(Jpeg(20), "jpeg-20")
        register(stripes, "stripes")


@pytest.fixture(autouse=True)
def _plugins(monkeypatch):
    monkeypatch.setenv("COVERLOCK_PLUGINS", "bench")
    plugin_manager.cache_clear()
    plugin_manager().add("checkers", Plugin())
    monkeypatch.setitem(presets.PRESETS, "smoke", TINY)
    yield
    plugin_manager.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twenty photos of 260 pixels, and three of 520: none is large enough for 1,024."""
    folder = tmp_path_factory.mktemp("photos")
    sizes = [(260, 280)] * 20 + [(520, 600)] * 3
    for index, size in enumerate(sizes):
        [picture] = natural_pictures(1, size, seed=index)
        Image.fromarray(picture).save(folder / f"{index:02}.png")
    return folder


def audit(folder, out, *options, watermark="checkers"):
    arguments = ["audit", watermark, "--images", str(folder), "-o", str(out), "--preset", "smoke"]
    return CliRunner().invoke(build_cli(), [*arguments, "-d", "none", *options])


def test_rt_is_measured_at_every_size_that_the_photos_have(folder, tmp_path):
    result = audit(folder, tmp_path, "--distortion", "jpeg")
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "results.json").read_text())["figures"]
    sizes = figures["rt"]["sizes"]
    assert figures["native_size"] is None
    assert list(sizes) == ["256", "512", "1024"]
    assert (sizes["256"]["pictures"], sizes["512"]["pictures"]) == (7, 3)
    assert figures["metrics"]["rt_256px"] > 0.5
    assert figures["metrics"]["rt_512px"] > 0.5
    assert "the photos are too small: 0 of 23 have 1024 pixels" in sizes["1024"]["not_measured"]
    page = (tmp_path / "report.html").read_text()
    assert "pictures of any size" in page
    assert "at 512 pixels" in page
    assert "the photos are too small" in page


def stripes(picture, rng):
    striped = picture.copy()
    striped[::16] = 0
    return striped


def test_distortions_of_plugins_are_measured_too(folder, tmp_path):
    result = audit(folder, tmp_path, "--fail-if", "tpr_jpeg-20<0")
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "results.json").read_text())
    genuine = document["figures"]["security"]["none"]["genuine"]
    assert list(genuine)[-2:] == ["jpeg-20", "stripes"]
    assert len(genuine) == 1 + 6 + 2
    assert genuine["stripes"]["tpr"]["trials"] == 4
    assert "after jpeg-20" in (tmp_path / "report.html").read_text()
    assert "tpr_distorted" in document["figures"]["metrics"]
