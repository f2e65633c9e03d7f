"""``coverlock train watermark``, from photos to a watermark that verifies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_sdk import load_watermark
from coverlock_sdk.cli import build_cli
from coverlock_sdk.testing import natural_pictures
from coverlock_training.watermarks import trainable


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for index, picture in enumerate(natural_pictures(24, (72, 72), seed=5)):
        Image.fromarray(picture).save(folder / f"{index}.png")
    return folder


def train(photos: Path, run: Path, *options: str) -> Result:
    command = ["train", "watermark", "mbrs", str(photos), "--run", str(run), *options]
    return CliRunner().invoke(build_cli(), command)


SMALL = ("--set", "bits=16", "--set", "size=64", "--set", "channels=8", "--batch", "2")


def test_what_was_trained_is_loaded_by_name(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = train(photos, run, *SMALL, "--steps", "2", "--noise", "everyday", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "watermark.safetensors" in result.output
    card = json.loads((run / "watermark.json").read_text())
    assert card["settings"]["bits"] == 16
    assert (card["recipe"]["seed"], card["images_seen"]) == (3, 4)
    assert set(card["held_out"]) == {"bit_accuracy", "psnr_mean", "accuracy_under_distortion"}
    watermark = load_watermark("mbrs", weights=run / "watermark.safetensors")
    assert (watermark.bits, watermark.native_size) == (16, (64, 64))
    assert watermark.calibration.scale == card["calibration"]["scale"]


@pytest.mark.slow
def test_every_picture_may_meet_its_own_noise_and_kernels_orthogonal_steps(
    photos: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    result = train(
        photos, run, *SMALL, "--steps", "1", "--noise", "mixed", "--recipe", "optimizer=muon"
    )
    assert result.exit_code == 0, result.output
    recipe = json.loads((run / "watermark.json").read_text())["recipe"]
    assert recipe["optimizer"] == "muon"
    assert [layer.split("(")[0] for layer in recipe["noise"]] == ["Mixed"]
    result = train(
        photos, run, *SMALL, "--steps", "2", "--noise", "mixed", "--recipe", "optimizer=adamw"
    )
    assert result.exit_code != 0
    assert "was made with other settings: name another run" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_card_tells_of_every_recipe_of_its_run(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = (*SMALL, "--noise", "none")
    train(photos, run, *options, "--steps", "1")
    assert "sittings" not in json.loads((run / "watermark.json").read_text())
    result = train(
        photos, run, *options, "--steps", "3", "--recipe", "image_weight=7", "--batch", "4"
    )
    assert result.exit_code == 0, result.output
    card = json.loads((run / "watermark.json").read_text())
    first, second = card["sittings"]
    assert (first["from_step"], first["recipe"]["image_weight"]) == (0, 1.0)
    assert (second["from_step"], second["recipe"]["image_weight"]) == (1, 7.0)
    assert first["settings"]["bits"] == 16
    assert card["recipe"] == second["recipe"]
    assert card["images_seen"] == 1 * 2 + 2 * 4


@pytest.mark.slow
def test_a_run_may_begin_with_weights_of_another_size(photos: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    train(photos, first, *SMALL, "--noise", "none", "--steps", "1")
    start = ("--start", str(first / "watermark.safetensors"))
    larger = ("--set", "bits=64", "--set", "size=128", "--set", "channels=8", "--batch", "2")
    result = train(
        photos, second, *larger, *start, "--noise", "none", "--recipe", "rate=1e-9", "--steps", "1"
    )
    assert result.exit_code == 0, result.output
    card = json.loads((second / "watermark.json").read_text())
    assert card["begun_with"]["settings"]["size"] == 64
    before, after = (
        load_watermark("mbrs", weights=run / "watermark.safetensors").network.parameters()
        for run in (first, second)
    )
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(old.detach(), new.detach(), atol=1e-6)
    wider = ("--set", "bits=16", "--set", "size=64", "--set", "channels=16")
    refused = train(photos, tmp_path / "third", *wider, *start, "--steps", "1")
    assert refused.exit_code != 0
    assert "does not hold a network of these settings" in refused.output


def test_a_network_without_its_message_is_called_that(photos: Path, tmp_path: Path) -> None:
    result = train(photos, tmp_path / "run", *SMALL, "--steps", "1", "--noise", "none")
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "run" / "watermark.json").read_text())
    assert card["held_out"]["bit_accuracy"] < 0.75
    assert f"on held-out photos: bits {card['held_out']['bit_accuracy']:.2%}, PSNR" in result.stdout
    assert "this network does not carry its message yet" in result.stderr


def test_a_network_that_carries_its_message_is_not_warned_of(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = {"bit_accuracy": 0.987, "psnr_mean": 36.25}
    monkeypatch.setattr(trainable, "quality", lambda network, covers: learned)
    result = train(photos, tmp_path / "run", *SMALL, "--steps", "1", "--noise", "none")
    assert result.exit_code == 0, result.output
    assert "on held-out photos: bits 98.70%, PSNR 36.2 dB" in result.stdout
    assert "warning" not in result.output


def test_a_setting_that_is_no_number_is_refused(photos: Path, tmp_path: Path) -> None:
    result = train(photos, tmp_path / "run", "--set", "channels=wide")
    assert result.exit_code == 2
    assert "'channels=wide' is not KEY=NUMBER" in result.output


@pytest.mark.parametrize("change", ["width=3", "bits=30"])
def test_settings_that_do_not_fit_the_network_are_refused(
    change: str, photos: Path, tmp_path: Path
) -> None:
    result = train(photos, tmp_path / "run", "--set", change)
    assert result.exit_code == 2
    assert "error: the network cannot be built with" in result.output


def test_a_network_that_nobody_registered_is_named(photos: Path, tmp_path: Path) -> None:
    command = ["train", "watermark", "mbr", str(photos), "--run", str(tmp_path / "run")]
    result = CliRunner().invoke(build_cli(), command)
    assert result.exit_code == 2
    assert "did you mean 'mbrs'?" in result.output
