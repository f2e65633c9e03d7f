"""Studies for people who choose a watermark, on a small one that takes any size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

pytest.importorskip("skimage")

from coverlock_sdk import Watermark, hookimpl
from coverlock_sdk.cli import build_cli
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from experiments import any_size

TILE = np.random.RandomState(2).choice([-1, 1], (48, 32, 32)).astype(np.float32)


def tiled(pattern: Any, size: tuple[int, int]) -> Any:
    repeats = [-(-side // 32) for side in size]
    return np.tile(pattern, (1, *repeats))[:, : size[0], : size[1]]


class Tiles(Watermark):
    name, bits, native_size = "tiles", 48, None

    def embed(self, images: Any, payloads: Any) -> Any:
        signs = 2 * payloads.astype(np.float32) - 1
        mark = tiled(np.tensordot(signs, TILE, axes=1), images.shape[2:])
        return np.clip(images + 0.006 * mark[:, None], 0, 1)

    def decode(self, images: Any) -> Any:
        grey = images.mean(axis=1)
        detail = grey - (np.roll(grey, 1, axis=1) + np.roll(grey, 1, axis=2)) / 2
        patterns = tiled(TILE, images.shape[2:]).reshape(48, -1)
        return 50 * detail.reshape(len(images), -1) @ patterns.T / patterns.shape[1] ** 0.5


class TilesPlugin:
    @hookimpl
    def register_watermarks(self, register: Any) -> None:
        register(Tiles)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    plugin_manager.cache_clear()
    plugin_manager().add("tiles", TilesPlugin())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number, picture in enumerate(natural_pictures(8, (160, 160), seed=6)):
        smaller = picture if number < 5 else picture[:100, :100]
        Image.fromarray(smaller).save(tmp_path / "photos" / f"{number}.png")
    yield tmp_path / "photos"
    plugin_manager.cache_clear()


def bench(command: str, *options: str) -> Any:
    arguments = ["bench", command, "-w", "tiles", "--images", "photos", "-o", "r.json", *options]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    return json.loads(Path("r.json").read_text()), result.output


@pytest.mark.usefixtures("photos")
def test_sizes_are_measured_on_photos_that_are_large_enough(monkeypatch: Any) -> None:
    monkeypatch.setattr(any_size, "SIDES", (96,))
    sides = [word for side in (96, 160, 320) for word in ("--side", str(side))]
    document, output = bench("any-size", "--pairs", "4", *sides)
    figures = document["figures"]["tiles"]["photos"]
    assert {side: row["pictures"] for side, row in figures.items()} == {"96": 8, "160": 5}
    for row in figures.values():
        bare, locked = (row["security"][arm]["attacks"] for arm in ("none", "coverlock"))
        for attack in ("gt", "re-embedding"):
            assert bare[attack]["asr"]["soft"]["rate"] == 1
            assert locked[attack]["asr"]["soft"]["rate"] == 0
    assert set(figures["160"]["security"]["none"]["genuine"]) == {"clean", "jpeg"}
    assert len(figures["96"]["security"]["none"]["genuine"]) == 7
    assert "| 4 of 4 → 0 of 4 |" in output


@pytest.mark.usefixtures("photos")
def test_a_choice_is_shown_with_what_it_costs() -> None:
    document, output = bench("choices", "--count", "6")
    row = document["figures"]["tiles"]
    assert (row["bits"], row["side"], row["pictures"]) == (48, 256, 6)
    assert row["bit_accuracy"] > 0.95
    assert row["rt"]["rt"] > 0.9
    assert row["embed_seconds"] > 0
    assert "| tiles | 48 | any (256 px) |" in output
