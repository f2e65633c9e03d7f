from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.toy_bundle import write_toy_bundle


def test_overheads_are_ratios_of_what_was_timed(photos, tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    for number, photo in enumerate(photos[:3]):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
    out = tmp_path / "overhead.json"
    command = f"bench overhead {bundle.path} --images {tmp_path} --batch 2 --rounds 1 -o {out}"
    answer = CliRunner().invoke(build_cli(), command.split())
    assert answer.exit_code == 0, answer.output
    figures = json.loads(out.read_text())["figures"]
    assert figures["batch"] == 2
    seconds = figures["seconds"]
    ratio = pytest.approx(seconds["verifier"] / seconds["fused"])
    assert figures["verifier_to_session"] == ratio
    assert 0 < figures["import_and_open_seconds"] < 60
