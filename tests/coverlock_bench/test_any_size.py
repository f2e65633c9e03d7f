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
from tests.conftest import plugin_of, saved_pictures

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

    def _board(self, height, width):
        return 1.0 - 2.0 * (np.add.outer(np.arange(height), np.arange(width)) % 2)

    def embed(self, images, payloads):
        height, width = images.shape[-2:]
        rows = (2.0 * payloads - 1)[:, np.arange(height) * self.bits // height]
        mark = 0.02 * rows[:, None, :, None] * self._board(height, width)
        return np.clip(images + mark, 0, 1)

    def decode(self, images):
        height, width = images.shape[-2:]
        seen = (images.mean(axis=1) * self._board(height, width)).mean(axis=2)
        shares = np.arange(height) * self.bits // height
        return np.stack([seen[:, shares == bit].mean(axis=1) for bit in range(self.bits)], axis=1)


class Plugin(plugin_of(Checkers)):
    @hookimpl
    def register_distortions(self, register):
        register(Jpeg(20), "jpeg-20")
        register(stripes, "stripes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twenty photos of 260 pixels, and three of 520: none is large enough for 1,024."""
    folder = tmp_path_factory.mktemp("photos")
    saved_pictures(folder, 20, (260, 280), seed=0)
    for number, large in enumerate(natural_pictures(3, (520, 600), seed=1)):
        Image.fromarray(large).save(folder / f"large-{number}.png")
    return folder


def stripes(picture, rng):
    striped = picture.copy()
    striped[::16] = 0
    return striped


@pytest.mark.usefixtures("additive_plugin")  # which clears the plugins
def test_every_size_and_distortion_is_measured(folder, tmp_path, monkeypatch):
    plugin_manager().add("checkers", Plugin())
    monkeypatch.setitem(presets.PRESETS, "smoke", TINY)
    arguments = ["audit", "checkers", "--images", str(folder), "-o", str(tmp_path)]
    arguments += ["--preset", "smoke", "-d", "none", "--fail-if", "tpr_jpeg-20<0"]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "results.json").read_text())["figures"]
    metrics, sizes = figures["metrics"], figures["rt"]["sizes"]
    assert figures["native_size"] is None
    assert list(sizes) == ["256", "512", "1024"]
    assert (sizes["256"]["pictures"], sizes["512"]["pictures"]) == (7, 3)
    assert min(metrics["rt_256px"], metrics["rt_512px"]) > 0.5
    assert "the photos are too small: 0 of 23 have 1024 pixels" in sizes["1024"]["not_measured"]
    genuine = figures["security"]["none"]["genuine"]
    assert list(genuine)[-2:] == ["jpeg-20", "stripes"]
    assert len(genuine) == 1 + 6 + 2
    assert genuine["stripes"]["tpr"]["trials"] == 4
    assert "tpr_distorted" in metrics
    page = (tmp_path / "report.html").read_text()
    shown = ("pictures of any size", "at 512 pixels", "the photos are too small", "after jpeg-20")
    assert all(text in page for text in shown)
