"""``coverlock train watermark``, from photos to a watermark that verifies."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_sdk import load_watermark
from coverlock_sdk.cli import build_cli
from tests.conftest import saved_pictures


@pytest.fixture
def photos(tmp_path):
    return saved_pictures(tmp_path / "photos", 24, (72, 72), 5)


def train(photos: Path, run: Path, *options: str) -> Result:
    command = ["train", "watermark", "mbrs", str(photos), "--run", str(run), *options]
    return CliRunner().invoke(build_cli(), command)


SMALL = ("--set", "bits=16", "--set", "size=64", "--set", "channels=8", "--batch", "2")


def test_what_was_trained_is_loaded_by_name(photos, tmp_path):
    run = tmp_path / "run"
    result = train(photos, run, *SMALL, "--steps", "2", "--noise", "everyday", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "watermark.safetensors" in result.output
    card = json.loads((run / "watermark.json").read_text())
    assert card["settings"]["bits"] == 16
    assert (card["recipe"]["seed"], card["images_seen"]) == (3, 4)
    figures = {"bit_accuracy", "psnr_mean", "psnr_lifted", "accuracy_under_distortion"}
    assert set(card["held_out"]) == figures
    watermark = load_watermark("mbrs", weights=run / "watermark.safetensors")
    assert (watermark.bits, watermark.native_size) == (16, (64, 64))
    assert watermark.calibration.scale == card["calibration"]["scale"]


def test_a_network_without_its_message_is_called_that(photos, tmp_path):
    result = train(photos, tmp_path / "run", *SMALL, "--steps", "1", "--noise", "none")
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "run" / "watermark.json").read_text())
    assert card["held_out"]["bit_accuracy"] < 0.75
    assert f"on held-out photos: bits {card['held_out']['bit_accuracy']:.2%}, PSNR" in result.stdout
    assert "this network does not carry its message yet" in result.stderr
