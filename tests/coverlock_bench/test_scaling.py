from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from tests.toy_bundle import write_toy_bundle


@pytest.mark.slow
@pytest.mark.parametrize("work", [(), ("--embed",)])
def test_processes_are_compared_turn_by_turn(tmp_path, photos, work):
    bundle = write_toy_bundle(tmp_path / "bundle", embedding=True)
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, photo in enumerate(photos):
        Image.fromarray(photo).save(folder / f"{number}.png")
    line = ["bench", "scaling", str(bundle.path), "--images", str(folder), "--count", "40"]
    result = CliRunner().invoke(
        build_cli(), [*line, *work, "--turns", "1", "-o", str(tmp_path / "r.json")]
    )
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "r.json").read_text())["figures"]
    assert figures["speed_ratio"]["median"] > 0
    assert 0.2 < figures["cost_ratio"]["median"] < 5
