from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.deployment import large_verdicts
from coverlock_bench.deployment.tables import LARGE_VERDICTS
from coverlock_sdk.cli import build_cli
from coverlock_sdk.testing import natural_pictures
from tests.toy_bundle import write_toy_bundle


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, photo in enumerate(natural_pictures(2, (160, 192), seed=3)):
        Image.fromarray(photo).save(folder / f"{number}.png")
    return folder


def test_verdicts_on_large_pictures_are_compared_and_the_run_resumes(tmp_path, photos, monkeypatch):
    monkeypatch.setattr(large_verdicts, "MEGAPIXELS", (1,))
    bundle = write_toy_bundle(tmp_path / "bundle", embedding=True).path
    work, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    line = ["bench", "large-verdicts", bundle, "--images", photos, "--work", work, "-o", out]

    def run(count: int) -> dict:
        result = CliRunner().invoke(build_cli(), [*map(str, line), "--count", str(count)])
        assert result.exit_code == 0, result.output
        return json.loads(out.read_text())["figures"]

    run(1)
    first = work.read_text()
    [row] = figures = run(2)
    assert work.read_text().startswith(first)
    assert (row["pictures"], row["verdicts"], row["equal"]) == (2, 4, 4)
    assert (row["megapixels"], row["enlarged"]) == (1, True)
    assert "| 1 | enlarged photos | 2 | 4 | 4 |" in LARGE_VERDICTS.markdown(figures)
