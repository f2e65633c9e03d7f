"""Our recipe on a frozen backbone, from the command line, on a DINOv2 as small as it can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from torch import Tensor, nn  # noqa: E402

from coverlock_sdk.cli import train_hash  # noqa: E402
from coverlock_sdk.cli.train import train  # noqa: E402
from coverlock_sdk.hashing.network import FrozenBackbone  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training import results  # noqa: E402
from coverlock_sdk.training.hashes import curriculum, frozen_recipe  # noqa: E402
from coverlock_sdk.training.kinds import collection  # noqa: E402
from coverlock_sdk.training.kinds.catalogue import KINDS  # noqa: E402
from coverlock_sdk.training.loop import Schedule  # noqa: E402

SHORT = Schedule(steps=2, batch=16, rate=1e-3, record_every=1)


class Patches(nn.Module):
    """A network of one layer whose output is a feature map."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, 12, 8, stride=8)

    def forward(self, images: Tensor) -> Tensor:
        return torch.tanh(self.layer(images))


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A folder of photos, two kinds, short stages, and a backbone where DINOv2 would be."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, picture in enumerate(natural_pictures(12, (64, 64), seed=3)):
        Image.fromarray(picture).save(photos / f"{number:03}.png")
    usual = frozen_recipe.FrozenRecipe()
    recipe = replace(
        usual,
        held_out=0.3,
        templates=1,
        head=replace(usual.head, schedule=SHORT, views=1),
        attacked=replace(usual.attacked, schedule=SHORT),
    )
    installed: list[Path] = []
    monkeypatch.setattr(collection, "KINDS", {name: KINDS[name] for name in ("QR codes", "logos")})
    monkeypatch.setattr(curriculum, "PER_SET", 3)
    monkeypatch.setattr(results, "draw_curves", lambda history, file: None)
    monkeypatch.setattr(frozen_recipe, "FrozenRecipe", lambda: recipe)
    backbone = FrozenBackbone(Patches(), 48, 12, {"tiny": True})
    monkeypatch.setattr(train_hash, "load_backbone", lambda name: backbone)
    monkeypatch.setattr(train_hash, "install_head", lambda name, run: installed.append(run))
    arguments = ["hash", str(photos), "--run", str(tmp_path / "run")]
    command = [*arguments, "--backbone", "dinov2-s", "--recipe", "ours"]
    return {"run": tmp_path / "run", "installed": installed, "command": command}


def test_one_command_trains_attacks_writes_and_installs_a_head(tiny: dict[str, Any]) -> None:
    result = CliRunner().invoke(train, tiny["command"], catch_exceptions=False)
    assert result.exit_code == 0
    card = json.loads((tiny["run"] / "hash.json").read_text())
    assert card["network"] == {"tiny": True}
    assert card["recipe"]["attacked"]["adversary"]["share"] > 0
    assert {"error", "kinds_mean", "QR codes", "logos"} <= set(card["held_out"])
    assert tiny["installed"] == [tiny["run"]]


def test_an_interrupted_run_goes_on(tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    attack = frozen_recipe.ATTACKED.adversary.__class__.attacked
    calls = []

    def interrupted(*arguments: Any) -> Tensor:
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return attack(*arguments)

    monkeypatch.setattr(type(frozen_recipe.ATTACKED.adversary), "attacked", interrupted)
    CliRunner().invoke(train, tiny["command"])
    assert not (tiny["run"] / "hash.safetensors").exists()
    drawn = {file: file.stat().st_mtime_ns for file in tiny["run"].rglob("*.png")}
    result = CliRunner().invoke(train, tiny["command"], catch_exceptions=False)
    assert result.exit_code == 0
    assert len(calls) == 3  # the second step of two; the first was kept
    assert {file: file.stat().st_mtime_ns for file in drawn} == drawn
    assert (tiny["run"] / "hash.safetensors").exists()
