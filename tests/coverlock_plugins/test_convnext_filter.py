"""The ConvNeXt filter: its training, its weights, and verification behind it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")


from coverlock_plugins.convnext import ConvNeXtFilter, find_filter  # noqa: E402
from coverlock_plugins.convnext.classifier import Classifier, load_classifier  # noqa: E402
from coverlock_plugins.convnext.training import FilterRecipe, train_filter  # noqa: E402
from coverlock_sdk import Watermark, hookimpl, load_defense  # noqa: E402
from coverlock_sdk.errors import CorruptModelError  # noqa: E402
from coverlock_sdk.models.checkpoints import write_weights  # noqa: E402
from coverlock_sdk.plugin_manager import plugin_manager  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from experiments.__main__ import studies  # noqa: E402
from tests.conftest import plugin_of, saved_pictures  # noqa: E402

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
    return saved_pictures(tmp_path_factory.mktemp("photos"), 60, (64, 64), 5)


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    return train_filter(GreyCorner(), photos, tmp_path_factory.mktemp("run"), SHORT, SMALL)


def filter_of(path: Path, watermark: str = "additive", bias: float = 0.0) -> Path:
    """A filter that gives every picture the same score."""
    classifier = Classifier(**SMALL)
    for weights in classifier.parameters():
        torch.nn.init.zeros_(weights)
    torch.nn.init.constant_(classifier.network.classifier[2].bias, bias)
    write_weights(path, classifier.state_dict(), classifier.about(watermark))
    return path


# Training
@pytest.mark.slow
def test_it_learns_to_tell_forgeries(trained):
    card = json.loads(trained.with_suffix(".json").read_text())
    assert card["held_out_auc"]["clean"] > 0.9
    assert card["photos"] == {"training": 24, "held_out": 5}  # a tenth of all
    assert card["watermark"] == "grey-corner"


@pytest.mark.parametrize("sees_texture", [True, False])
def test_a_classifier_scores_pictures_and_comes_back_from_disk(sees_texture, tmp_path):
    torch.manual_seed(0)
    classifier = Classifier(**SMALL, sees_texture=sees_texture).eval()
    images = torch.rand(2, 3, 64, 96)
    logits = classifier(images)
    assert logits.shape == (2,)
    about = classifier.about("additive")
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


def test_the_command_trains_and_installs(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    plugin_manager().add("grey-corner", plugin_of(GreyCorner)())
    arguments = ["filter", "grey-corner", str(photos), "--run", str(tmp_path / "run")]
    sizes = ["--pictures", "4", "--validation", "2", "--steps", "2", "--batch", "2"]
    result = CliRunner().invoke(studies, [*arguments, *sizes])
    assert result.exit_code == 0, result.output
    installed = find_filter("grey-corner")
    assert installed.is_relative_to(tmp_path / "models")
    assert load_defense("convnext").protect(GreyCorner())
