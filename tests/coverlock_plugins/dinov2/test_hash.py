"""The paper's hash on a tiny DINOv2: loading, gradients, export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from coverlock_plugins.dinov2 import hash as dinov2  # noqa: E402
from coverlock_plugins.dinov2 import head  # noqa: E402
from coverlock_plugins.dinov2.sources import import_file  # noqa: E402
from coverlock_sdk import CoverLock, load_watermark, wrap  # noqa: E402
from coverlock_sdk.errors import (  # noqa: E402
    CorruptModelError,
    CoverLockError,
    MissingModelError,
)
from coverlock_sdk.models.assets import RECORD  # noqa: E402
from coverlock_sdk.plugin_calls import hash_logits  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from tests.coverlock_plugins.dinov2 import tiny_dinov2  # noqa: E402


@pytest.fixture(params=[False, True], ids=["mlp", "swiglu"])
def tiny(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a tiny DINOv2, imported from an original file."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant(request.param))
    torch.save(tiny_dinov2.original_weights(request.param), tmp_path / "original.pth")
    return import_file("dinov2-s", tmp_path / "original.pth")


@pytest.fixture
def whole(tiny: Path) -> dinov2.Dinov2Hash:
    """The tiny DINOv2 with a head."""
    torch.manual_seed(0)
    save_file(head.HashHead(2 * tiny_dinov2.WIDTH).state_dict(), tiny / "head.safetensors")
    card = {"calibration": {"scale": 2.0, "power": 0.5}}
    (tiny / "head.json").write_text(json.dumps(card))
    return dinov2.Dinov2Hash("dinov2-s")


def test_pooling_is_mean_and_deviation_over_patches() -> None:
    patches = torch.tensor([[[1.0, 10.0], [3.0, 10.0]]])
    assert head.pool_patches(patches).tolist() == [[2.0, 10.0, 1.0, 0.0]]


def test_a_backbone_pools_the_patches_of_normalised_pictures(tiny: Path) -> None:
    backbone = dinov2.load_backbone("dinov2-s", tiny)
    images = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    patches = backbone.get_submodule("model")((images - mean) / deviation)[:, 1:]
    assert patches.shape == (2, 256, tiny_dinov2.WIDTH)
    torch.testing.assert_close(backbone(images), head.pool_patches(patches))


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingModelError, match="coverlock fetch dinov2-b"):
        dinov2.load_backbone("dinov2-b", tmp_path)


def test_a_missing_head_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dinov2, "SHIPPED", tmp_path / "shipped")
    with pytest.raises(MissingModelError, match="coverlock train hash --backbone dinov2-s"):
        dinov2.Dinov2Hash("dinov2-s", tmp_path)


def test_a_backbone_with_a_missing_tensor_is_refused(tiny: Path) -> None:
    state = load_file(tiny / dinov2.WEIGHTS)
    del state["norm.weight"]
    save_file(state, tiny / dinov2.WEIGHTS)
    with pytest.raises(CorruptModelError, match="SHA-256 differs"):
        dinov2.load_backbone("dinov2-s", tiny)
    (tiny / RECORD).unlink()
    with pytest.raises(CorruptModelError, match=r"norm\.weight"):
        dinov2.load_backbone("dinov2-s", tiny)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with what a training wrote."""
    folder = tmp_path / "run"
    folder.mkdir()
    save_file(head.HashHead(2 * tiny_dinov2.WIDTH).state_dict(), folder / "hash.safetensors")
    (folder / "hash.json").write_text('{"calibration": {"scale": 3.0, "power": 0.5}}')
    return folder


def test_a_new_head_may_be_installed_after_an_import(tiny: Path, run: Path) -> None:
    assert dinov2.install_head("dinov2-s", run) == tiny / dinov2.HEAD
    dinov2.load_backbone("dinov2-s")  # the record is about the backbone alone
    assert dinov2.Dinov2Hash("dinov2-s").calibration.scale == 3.0


def test_a_head_is_replaced_only_on_demand(whole: dinov2.Dinov2Hash, run: Path) -> None:
    before = (whole.folder / dinov2.HEAD).read_bytes()
    with pytest.raises(CoverLockError, match="give --replace"):
        dinov2.install_head("dinov2-s", run)
    assert (whole.folder / dinov2.HEAD).read_bytes() == before
    dinov2.install_head("dinov2-s", run, replace=True)
    assert dinov2.Dinov2Hash("dinov2-s").calibration.scale == 3.0


def test_a_head_of_your_own_goes_before_one_that_ships(
    tiny: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dinov2, "SHIPPED", tmp_path)
    for suffix in ("safetensors", "json"):
        content = (run / f"hash.{suffix}").read_bytes().replace(b"3.0", b"7.0")
        (tmp_path / f"dinov2-s-head.{suffix}").write_bytes(content)
    assert dinov2.Dinov2Hash("dinov2-s").calibration.scale == 7.0
    dinov2.install_head("dinov2-s", run)
    assert dinov2.Dinov2Hash("dinov2-s").calibration.scale == 3.0


def test_a_head_of_another_backbone_is_refused(whole: dinov2.Dinov2Hash) -> None:
    save_file(head.HashHead(10).state_dict(), whole.folder / dinov2.HEAD)
    with pytest.raises(CorruptModelError, match="does not hold the head of 'dinov2-s'"):
        hash_logits(whole, np.zeros((1, 3, 50, 60), np.float32))


def test_the_whole_hash_runs_with_a_head_beside_its_backbone(whole: dinov2.Dinov2Hash) -> None:
    assert whole.calibration.power == 0.5
    assert hash_logits(whole, np.zeros((1, 3, 50, 60), np.float32)).shape == (1, 256)


def test_the_hash_has_gradients_also_after_it_was_first_used_without(
    whole: dinov2.Dinov2Hash,
) -> None:
    images = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    with torch.inference_mode():
        plain = whole.logits(images)
    logits, gradient = whole.differentiable()(images)
    np.testing.assert_allclose(logits, plain, atol=1e-5)
    weights = np.ones_like(logits)
    step = gradient(weights)
    step *= np.float32(0.05 / np.abs(step).max())
    expected = np.vdot(gradient(weights), step)
    [moved] = (whole.logits(images + step) - whole.logits(images - step)).sum(axis=1) / 2
    assert moved == pytest.approx(expected, rel=0.1)


def test_pictures_are_marked_and_hardened_under_the_default_lock(whole: dinov2.Dinov2Hash) -> None:
    lock = wrap("mbrs", hash=whole)
    [picture] = natural_pictures(1, (128, 128), seed=3)
    marked = lock.embed(picture, "order-4711")
    assert lock.verify(marked, "order-4711").accepted
    plain = CoverLock(whole, harden=False).protect(load_watermark("mbrs"))
    assert not np.array_equal(marked, plain.embed(picture, "order-4711"))


def test_the_module_is_the_hash(whole: dinov2.Dinov2Hash) -> None:
    images = np.random.default_rng(0).random((2, 3, 224, 224), np.float32)
    with torch.no_grad():
        exported = whole.module()(torch.from_numpy(images)).numpy()
    np.testing.assert_array_equal(exported, whole.logits(images))


@pytest.mark.slow
def test_an_exported_backbone_has_nothing_left_to_resize(whole: dinov2.Dinov2Hash) -> None:
    export = pytest.importorskip("coverlock_export.graphs")
    model = export.export_graph(
        whole.module(), [torch.zeros(1, 3, 224, 224)], ["x"], ["y"], "the hash"
    )
    assert "Resize" not in {node.op_type for node in model.graph.node}
