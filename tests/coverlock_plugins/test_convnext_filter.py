"""The ConvNeXt filter: its training, its weights, and verification behind it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")


from coverlock_plugins.convnext import ConvNeXtFilter, find_filter  # noqa: E402
from coverlock_plugins.convnext.classifiers import BACKBONES, build  # noqa: E402
from coverlock_plugins.convnext.training import (  # noqa: E402
    FilterRecipe,
    description,
    load_classifier,
    train_filter,
)
from coverlock_plugins.dinov2 import hash as dinov2  # noqa: E402
from coverlock_plugins.dinov2.sources import import_file  # noqa: E402
from coverlock_sdk import Watermark, hookimpl, load_defense  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import (  # noqa: E402
    CorruptModelError,
)
from coverlock_sdk.models.checkpoints import write_weights  # noqa: E402
from coverlock_sdk.plugin_manager import plugin_manager  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from tests.conftest import plugin_of  # noqa: E402
from tests.coverlock_plugins.dinov2 import tiny_dinov2  # noqa: E402

SMALL: dict[str, Any] = {"depths": [1, 1], "widths": [8, 16]}


SHORT = FilterRecipe(pictures=24, validation=8, steps=40, batch=8, rate=3e-3, distorted=0.0)


class GreyCorner(Watermark):
    """Paints a corner grey. On another picture the residual leaves a mess there."""

    name, bits, native_size = "grey-corner", 32, (64, 64)

    def embed(self, images, payloads):
        marked = images.copy()
        marked[:, :, :32, :32] = 0.5
        return marked

    def decode(self, images):
        return np.ones((len(images), 32), np.float32)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("photos")
    for index, picture in enumerate(natural_pictures(60, (64, 64), seed=5)):
        Image.fromarray(picture).save(folder / f"{index:02}.png")
    return folder


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    return train_filter(
        GreyCorner(), photos, tmp_path_factory.mktemp("run"), "convnext", SMALL, SHORT
    )


def filter_of(path: Path, watermark: str = "additive", bias: float = 0.0) -> Path:
    """A filter that gives every picture the same score."""
    classifier = build("convnext", **SMALL)
    for weights in classifier.parameters():
        torch.nn.init.zeros_(weights)
    torch.nn.init.constant_(classifier.network.classifier[2].bias, bias)
    write_weights(path, classifier.state_dict(), description(classifier, "convnext", watermark))
    return path


# Training
@pytest.mark.slow
def test_it_learns_to_tell_forgeries(trained):
    card = json.loads(trained.with_suffix(".json").read_text())
    assert card["held_out_auc"]["clean"] > 0.9
    assert card["photos"] == {"training": 24, "held_out": 5}  # a tenth of all
    assert card["watermark"] == "grey-corner"


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A models folder with a tiny DINOv2."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant())
    torch.save(tiny_dinov2.original_weights(), tmp_path / "original.pth")
    (tmp_path / "models" / "dinov2-s").mkdir(parents=True)
    import_file("dinov2-s", tmp_path / "original.pth")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("backbone", BACKBONES)
def test_backbones_score_pictures_and_come_back_from_disk(backbone, tmp_path):
    torch.manual_seed(0)
    small = {"convnext": SMALL, "resnet": {"width": 4}, "features": {"hidden": 8}}
    classifier = build(backbone, **small[backbone]).eval()
    images = torch.rand(2, 3, 64, 96)
    logits = classifier(images)
    assert logits.shape == (2,)
    about = description(classifier, backbone, "additive")
    write_weights(tmp_path / "f.safetensors", classifier.state_dict(), about)
    with torch.inference_mode():
        assert torch.equal(load_classifier(tmp_path / "f.safetensors", "additive")(images), logits)


# Verification
@pytest.mark.parametrize(("bias", "accepted"), [(3.0, True), (-3.0, False)])
def test_a_picture_must_pass_both(additive, photos, tmp_path, bias, accepted):
    weights = filter_of(tmp_path / "f.safetensors", bias=bias)
    protected = load_defense("convnext", weights=weights).protect(additive)
    picture = natural_pictures(1, (160, 192), seed=3)[0]
    marked = protected.embed(picture, "invoice 7")
    np.testing.assert_allclose(protected.scores(marked), 1 / (1 + np.exp(-bias)))
    verdict = protected.verify(marked, "invoice 7")
    assert verdict.accepted == accepted
    assert verdict.p_value < 1e-6
    assert not protected.verify(marked, "invoice 8")
    assert [bool(v) for v in protected.verify([marked, picture], "invoice 7")] == [accepted, False]
    assert protected.decode(marked).shape == (1, additive.bits)


def test_only_the_last_word_is_announced(additive, tmp_path):
    heard = []

    class Listener:
        @hookimpl
        def verdict_reached(self, verdict, watermark, hash, source):
            heard.append((verdict.accepted, watermark, hash))

    plugin_manager().add("filter-listener", Listener())
    weights = filter_of(tmp_path / "f.safetensors", bias=-3.0)
    protected = ConvNeXtFilter(weights=weights).protect(additive)
    picture = natural_pictures(1, (160, 192), seed=3)[0]
    protected.verify(protected.embed(picture, "x"), "x")
    assert heard == [(False, "additive", None)]


def test_a_filter_of_another_watermark_is_refused(additive, tmp_path):
    weights = filter_of(tmp_path / "f.safetensors", watermark="mbrs")
    with pytest.raises(CorruptModelError, match="trained for the watermark 'mbrs'"):
        ConvNeXtFilter(weights=weights).protect(additive)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CorruptModelError, match="cannot be read as a filter"):
        ConvNeXtFilter(weights=weights).protect(additive)


@pytest.mark.usefixtures("tiny")
def test_the_command_trains_and_installs(photos, tmp_path):
    plugin_manager().add("grey-corner", plugin_of(GreyCorner)())
    arguments = ["train", "filter", "grey-corner", str(photos), "--run", str(tmp_path / "run")]
    sizes = ["--pictures", "4", "--validation", "2", "--steps", "2", "--batch", "2"]
    result = CliRunner().invoke(build_cli(), [*arguments, *sizes, "--backbone", "features"])
    assert result.exit_code == 0, result.output
    installed = find_filter("grey-corner", "features")
    assert installed.is_relative_to(tmp_path / "models")
    assert load_defense("convnext", backbone="features").protect(GreyCorner())
