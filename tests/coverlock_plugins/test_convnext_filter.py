"""The ConvNeXt filter: its training, its weights, and verification behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from coverlock_plugins.convnext import ConvNeXtFilter, find_filter  # noqa: E402
from coverlock_plugins.convnext.classifiers import BACKBONES, PUBLISHED, build  # noqa: E402
from coverlock_plugins.convnext.training import (  # noqa: E402
    FilterRecipe,
    MarkedPhotos,
    description,
    load_classifier,
    roc_auc,
    train_filter,
)
from coverlock_plugins.dinov2 import hash as dinov2  # noqa: E402
from coverlock_plugins.dinov2.sources import import_file  # noqa: E402
from coverlock_sdk import Watermark, hookimpl, load_defense  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import (  # noqa: E402
    CorruptModelError,
    CoverLockError,
    MissingModelError,
)
from coverlock_sdk.models.checkpoints import write_weights  # noqa: E402
from coverlock_sdk.plugin_manager import plugin_manager  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
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
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("photos")
    for index, picture in enumerate(natural_pictures(60, (64, 64), seed=5)):
        Image.fromarray(picture).save(folder / f"{index:02}.png")
    return folder


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_auc_by_hand() -> None:
    assert roc_auc(np.array([0.9, 0.8]), np.array([0.1, 0.8])) == 0.875  # 3 wins and a tie of 4
    assert roc_auc(np.array([0.2]), np.array([0.3])) == 0


def test_a_forgery_is_another_cover_plus_the_residual(photos: Path, tmp_path: Path) -> None:
    paths = sorted(photos.iterdir())[:3]
    data = MarkedPhotos(GreyCorner(), paths, tmp_path, seed=0)
    cover, marked = data.pictures[0].astype(int)
    assert (data.genuine(0)[:, :32, :32] == 128).all()
    target = np.moveaxis(np.asarray(Image.open(paths[2])), -1, 0).astype(int)
    assert np.array_equal(data.forged(0, 2), np.clip(target + marked - cover, 0, 255))


@pytest.mark.slow
def test_it_learns_to_tell_forgeries(trained: Path) -> None:
    card = json.loads(trained.with_suffix(".json").read_text())
    assert card["held_out_auc"]["clean"] > 0.9
    assert card["photos"] == {"training": 24, "held_out": 5}  # a tenth of all
    assert card["watermark"] == "grey-corner"


def test_an_interrupted_run_ends_like_one_that_was_not(photos: Path, tmp_path: Path) -> None:
    recipe = FilterRecipe(pictures=8, validation=4, steps=4, batch=4, clean_start=1, record_every=2)
    whole = train_filter(GreyCorner(), photos, tmp_path / "whole", "convnext", SMALL, recipe)

    def stop(step: int, figures: dict[str, float]) -> None:
        if step == 3:
            raise KeyboardInterrupt

    parts = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        train_filter(GreyCorner(), photos, parts, "convnext", SMALL, recipe, stop)
    resumed = train_filter(GreyCorner(), photos, parts, "convnext", SMALL, recipe)
    weights, expected = load_file(resumed), load_file(whole)
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    with pytest.raises(CoverLockError, match="other settings"):
        train_filter(
            GreyCorner(), photos, parts, "convnext", SMALL, FilterRecipe(pictures=8, steps=6)
        )


def test_the_rate_falls_along_a_cosine() -> None:
    schedule = FilterRecipe(steps=4, rate=1.0)
    rates = [schedule.rate_at(step) for step in range(5)]
    assert rates == pytest.approx([1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0])


def test_too_few_photos_are_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(CoverLockError, match="two photos to learn from"):
        train_filter(GreyCorner(), photos, tmp_path, recipe=FilterRecipe(validation=1))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A models folder with a tiny DINOv2."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant())
    torch.save(tiny_dinov2.original_weights(), tmp_path / "original.pth")
    (tmp_path / "models" / "dinov2-s").mkdir(parents=True)
    import_file("dinov2-s", tmp_path / "original.pth")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("backbone", BACKBONES)
def test_backbones_score_pictures_and_come_back_from_disk(backbone: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("backbone", "with_a_thousand_classes", "features"),
    [("convnext", 28_589_128, 768), ("resnet", 25_557_032, 2048)],
)
def test_the_published_size_is_a_parameter(
    backbone: str, with_a_thousand_classes: int, features: int
) -> None:
    with torch.device("meta"):
        classifier = build(backbone, **PUBLISHED[backbone])
    weights = sum(w.numel() for w in classifier.parameters())
    assert weights == with_a_thousand_classes - 999 * (features + 1)


def test_frozen_features_name_the_command_that_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock fetch dinov2-g"):
        build("features", **PUBLISHED["features"])


def test_an_unknown_backbone_is_named() -> None:
    with pytest.raises(CoverLockError, match="'vgg' is not a backbone"):
        build("vgg")


# Verification


@pytest.mark.parametrize(("bias", "accepted"), [(3.0, True), (-3.0, False)])
def test_a_picture_must_pass_both(additive, photos, tmp_path, bias: float, accepted: bool) -> None:
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


def test_the_threshold_decides(additive, tmp_path: Path) -> None:
    weights = filter_of(tmp_path / "f.safetensors")  # every picture scores 0.5
    picture = natural_pictures(1, (160, 192), seed=3)[0]
    for threshold, accepted in ((0.0, True), (0.5, True), (0.51, False), (1.0, False)):
        protected = ConvNeXtFilter(threshold=threshold, weights=weights).protect(additive)
        assert protected.verify(protected.embed(picture, "x"), "x").accepted == accepted
    with pytest.raises(CoverLockError, match="a threshold is a probability"):
        ConvNeXtFilter(threshold=1.5, weights=weights).protect(additive)


def test_only_the_last_word_is_announced(additive, tmp_path: Path) -> None:
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


def test_a_missing_filter_names_the_command(additive, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock train filter additive PHOTOS"):
        load_defense("convnext").protect(additive)


def test_a_filter_of_another_watermark_is_refused(additive, tmp_path: Path) -> None:
    weights = filter_of(tmp_path / "f.safetensors", watermark="mbrs")
    with pytest.raises(CorruptModelError, match="trained for the watermark 'mbrs'"):
        ConvNeXtFilter(weights=weights).protect(additive)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CorruptModelError, match="cannot be read as a filter"):
        ConvNeXtFilter(weights=weights).protect(additive)


@pytest.mark.usefixtures("tiny")
def test_the_command_trains_and_installs(photos: Path, tmp_path: Path) -> None:
    class Plugin:
        @hookimpl
        def register_watermarks(self, register):
            register(GreyCorner)

    plugin_manager().add("grey-corner", Plugin())
    arguments = ["train", "filter", "grey-corner", str(photos), "--run", str(tmp_path / "run")]
    sizes = ["--pictures", "4", "--validation", "2", "--steps", "2", "--batch", "2"]
    result = CliRunner().invoke(build_cli(), [*arguments, *sizes, "--backbone", "features"])
    assert result.exit_code == 0, result.output
    installed = find_filter("grey-corner", "features")
    assert installed.is_relative_to(tmp_path / "models")
    assert load_defense("convnext", backbone="features").protect(GreyCorner())
