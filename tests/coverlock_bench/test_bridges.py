"""Other people's benchmarks, by small stand-ins of their interfaces."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")

from coverlock_bench.bridges import omniseal  # noqa: E402
from coverlock_bench.settings import named_watermark  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import MissingModelError  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from tests.conftest import AdditiveMark  # noqa: E402

pytestmark = pytest.mark.usefixtures("additive_plugin")


@pytest.fixture(scope="module")
def batch() -> Any:
    pictures = natural_pictures(2, (150, 180), seed=4)
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255


@pytest.fixture(scope="module")
def message() -> Any:
    return torch.from_numpy(np.random.default_rng(3).integers(0, 2, 48))


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


# OmniSeal Bench: our watermarks there


@pytest.mark.parametrize("locked", [False, True])
def test_omniseal_reads_what_it_generated(batch: Any, message: Any, locked: bool) -> None:
    model = omniseal.build_model("additive", locked=locked)
    assert model.nbits == 48
    marked = model.generate_watermark(batch, message)
    assert marked.shape == batch.shape
    assert 0 < (marked - batch).abs().max() < 0.2
    found = model.detect_watermark(marked)
    assert found["message"].shape == (2, 48)
    assert (found["message"] == message).float().mean() > 0.95
    unmarked = model.detect_watermark(batch)
    assert (found["prediction"] > unmarked["prediction"]).all()


def test_a_lock_binds_the_message_to_its_picture(batch: Any, message: Any) -> None:
    bare, locked = (omniseal.build_model("additive", locked=each) for each in (False, True))
    agree = []
    for model in (bare, locked):
        residual = model.generate_watermark(batch, message)[:1] - batch[:1]
        forged = (batch[1:] + residual).clamp(0, 1)
        agree.append((model.detect_watermark(forged)["message"] == message).float().mean())
    assert agree[0] > 0.95
    assert agree[1] < 0.8


def test_omniseal_may_give_lists_and_a_message_each(batch: Any) -> None:
    model = omniseal.build_model("additive", locked=False)
    messages = torch.stack([torch.zeros(48), torch.ones(48)])
    marked = model.generate_watermark(list(batch), messages)
    assert isinstance(marked, list)
    found = model.detect_watermark(marked, detection_bits=16)
    assert found["detection_bits"].shape == (2, 16)
    assert found["message"].shape == (2, 32)
    assert found["message"][0].mean() < 0.1
    assert found["message"][1].mean() > 0.9


def test_cards_build_what_they_say(tmp_path: Path, batch: Any) -> None:
    command = ["bench", "omniseal-cards", str(tmp_path / "cards"), "-w", "additive"]
    result = CliRunner().invoke(build_cli(), command)
    assert result.exit_code == 0, result.output
    cards = sorted((tmp_path / "cards").iterdir())
    assert [card.name for card in cards] == [
        "coverlock_additive.yaml",
        "coverlock_additive_locked.yaml",
    ]
    for card, locked in zip(cards, (False, True), strict=True):
        lines = dict(line.split(": ") for line in card.read_text().splitlines())
        module, _, function = lines.pop("builder_func").rpartition(".")
        assert lines == {"watermark": '"additive"', "locked": str(locked).lower()}
        builder = getattr(importlib.import_module(module), function)
        assert builder(watermark="additive", locked=locked).nbits == 48


def test_a_card_of_an_unknown_watermark_is_refused(tmp_path: Path) -> None:
    command = ["bench", "omniseal-cards", str(tmp_path / "cards"), "-w", "aditive"]
    result = CliRunner().invoke(build_cli(), command)
    assert result.exit_code == 2
    assert "did you mean 'additive'" in result.output
    assert not (tmp_path / "cards").exists()


# OmniSeal Bench: their models here


class TheirModel:
    """A model as that project describes them, around the watermark of these tests."""

    nbits = 48

    def __init__(self) -> None:
        self.mark = AdditiveMark()

    def generate_watermark(self, contents: torch.Tensor, message: torch.Tensor) -> torch.Tensor:
        assert contents.ndim == 4
        assert message.ndim == 1
        bits = message.numpy()[None].astype(np.uint8)
        small = self._small(contents)
        residual = torch.from_numpy(self.mark.embed(small.numpy(), bits)) - small
        return contents + torch.nn.functional.interpolate(residual, contents.shape[-2:])

    def detect_watermark(
        self, contents: list[torch.Tensor], detection_threshold: float = 0.0
    ) -> dict[str, torch.Tensor]:
        assert isinstance(contents, list)
        read = torch.from_numpy(self.mark.decode(self._small(torch.stack(contents)).numpy())) > 0
        return {"detection_bits": read[:, :16].int(), "message": read[:, 16:].int()}

    def _small(self, contents: torch.Tensor) -> torch.Tensor:
        """Pictures of any size as the watermark takes them."""
        return torch.nn.functional.interpolate(contents, self.mark.native_size, mode="area")


@pytest.fixture
def omnisealbench(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_model(name: str, as_type: str | None = None) -> TheirModel:
        if name != "theirs":
            raise ValueError(f"Model card {name} not found\nsee the nested error")
        assert as_type in ("generator", "detector")
        return TheirModel()

    stand_in(monkeypatch, "omnisealbench", get_model=get_model)


@pytest.mark.usefixtures("omnisealbench")
def test_their_model_is_a_watermark() -> None:
    watermark = named_watermark("omniseal:theirs")
    assert (watermark.name, watermark.bits) == ("omniseal:theirs", 48)
    images = natural_pictures(2, (128, 128)).transpose(0, 3, 1, 2).astype(np.float32) / 255
    bits = np.random.default_rng(0).integers(0, 2, (2, 48), dtype=np.uint8)
    assert (watermark.decode(watermark.embed(images, bits)) == bits).mean() > 0.95


@pytest.mark.usefixtures("omnisealbench")
def test_a_model_that_they_do_not_have_is_named() -> None:
    with pytest.raises(MissingModelError, match="cannot build 'other': Model card other not found"):
        named_watermark("omniseal:other")


def test_without_their_project_the_error_says_where_it_is(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "omnisealbench", None)
    with pytest.raises(MissingModelError, match="install it from https://github.com/facebook"):
        named_watermark("omniseal:theirs")
    with pytest.raises(MissingModelError, match="omniseal:NAME"):
        named_watermark("omniseal")


@pytest.mark.usefixtures("omnisealbench")
@pytest.mark.slow  # a whole audit
def test_their_model_is_audited(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "photos").mkdir()
    for number, picture in enumerate(natural_pictures(20, (128, 128), seed=2)):
        Image.fromarray(picture).save(tmp_path / "photos" / f"{number}.png")
    command = ["audit", "omniseal:theirs", "--images", str(tmp_path / "photos")]
    command += ["--preset", "smoke", "-a", "re-embedding", "-d", "none", "-d", "coverlock"]
    result = CliRunner().invoke(build_cli(), [*command, "--out", str(tmp_path / "audit")])
    assert result.exit_code == 0, result.output
    assert "10 of 10" in result.output


# WIBE


@pytest.fixture
def wibe(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Registered(type):
        classes: dict[str, type] = {}  # noqa: RUF012

        def __init__(cls, name: str, bases: Any, members: Any) -> None:
            super().__init__(name, bases, members)
            Registered.classes[members.get("name", name)] = cls

    class BaseAlgorithmWrapper(metaclass=Registered):
        def __init__(self, params: Any) -> None:
            self.params = params

    class TorchBitWatermarkData(SimpleNamespace):
        @classmethod
        def get_random(cls, length: int) -> Any:
            return cls(watermark=torch.randint(0, 2, (1, length)))

    stand_in(monkeypatch, "wibench")
    stand_in(monkeypatch, "wibench.algorithms", BaseAlgorithmWrapper=BaseAlgorithmWrapper)
    stand_in(monkeypatch, "wibench.watermark_data", TorchBitWatermarkData=TorchBitWatermarkData)
    sys.modules.pop("coverlock_bench.bridges.wibe", None)
    yield importlib.import_module("coverlock_bench.bridges.wibe"), Registered.classes
    sys.modules.pop("coverlock_bench.bridges.wibe", None)


@pytest.mark.parametrize("locked", [False, True])
def test_wibe_reads_what_it_embedded(wibe: Any, batch: Any, locked: bool) -> None:
    module, registered = wibe
    assert registered["coverlock"] is module.CoverLockWrapper
    wrapper = module.CoverLockWrapper({"watermark": "additive", "locked": locked})
    data = wrapper.watermark_data_gen()
    marked = wrapper.embed(batch[0], data)
    assert marked.shape == batch[0].shape
    assert marked.dtype == batch.dtype
    bits = wrapper.extract(marked, data)
    assert (bits == data.watermark[0].numpy()).mean() > 0.95


def test_without_wibe_the_error_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wibench", None)
    sys.modules.pop("coverlock_bench.bridges.wibe", None)
    with pytest.raises(MissingModelError, match="https://github.com/ispras/wibe"):
        importlib.import_module("coverlock_bench.bridges.wibe")


# watermarklab


@pytest.mark.parametrize("locked", [False, True])
def test_watermarklab_reads_what_it_embedded(monkeypatch: pytest.MonkeyPatch, locked: bool) -> None:
    class BaseWatermarkModel:
        def __init__(self, bits_len: int, img_size: int, modelname: str, description: str) -> None:
            self.bits_len, self.img_size, self.modelname = bits_len, img_size, modelname

    for name in ("watermarklab", "watermarklab.utils"):
        stand_in(monkeypatch, name)
    members = {"BaseWatermarkModel": BaseWatermarkModel, "Result": SimpleNamespace}
    stand_in(monkeypatch, "watermarklab.utils.basemodel", **members)
    sys.modules.pop("coverlock_bench.bridges.watermarklab", None)
    module = importlib.import_module("coverlock_bench.bridges.watermarklab")
    model = module.CoverLockModel("additive", locked=locked)
    assert (model.bits_len, model.img_size) == (48, 128)
    covers = list(natural_pictures(2, (128, 128), seed=4))
    secrets = np.random.default_rng(5).integers(0, 2, (2, 48)).tolist()
    stego = model.embed(covers, secrets)
    assert stego.emb_bits == secrets
    assert all(one.dtype == np.uint8 for one in stego.stego_img)
    read = model.extract(stego.stego_img).ext_bits
    assert (np.array(read) == secrets).mean() > 0.95
    sys.modules.pop("coverlock_bench.bridges.watermarklab", None)
