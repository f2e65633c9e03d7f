"""The paper's hash on a tiny DINOv2: loading, gradients, export."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from coverlock_plugins.dinov2 import hash as dinov2  # noqa: E402
from coverlock_plugins.dinov2 import head  # noqa: E402
from coverlock_plugins.dinov2.sources import import_file  # noqa: E402
from coverlock_sdk.errors import (  # noqa: E402
    CorruptModelError,
)
from coverlock_sdk.models.assets import RECORD  # noqa: E402
from tests.coverlock_plugins.dinov2 import tiny_dinov2  # noqa: E402


@pytest.fixture(params=[False, True], ids=["mlp", "swiglu"])
def tiny(request, monkeypatch, tmp_path):
    """A folder with a tiny DINOv2, imported from an original file."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant(request.param))
    torch.save(tiny_dinov2.original_weights(request.param), tmp_path / "original.pth")
    return import_file("dinov2-s", tmp_path / "original.pth")


@pytest.fixture
def whole(tiny):
    """The tiny DINOv2 with a head."""
    torch.manual_seed(0)
    save_file(head.HashHead(2 * tiny_dinov2.WIDTH).state_dict(), tiny / "head.safetensors")
    card = {"calibration": {"scale": 2.0, "power": 0.5}}
    (tiny / "head.json").write_text(json.dumps(card))
    return dinov2.Dinov2Hash("dinov2-s")


def test_a_backbone_pools_the_patches_of_normalised_pictures(tiny):
    backbone = dinov2.load_backbone("dinov2-s", tiny)
    images = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    patches = backbone.get_submodule("model")((images - mean) / deviation)[:, 1:]
    assert patches.shape == (2, 256, tiny_dinov2.WIDTH)
    torch.testing.assert_close(backbone(images), head.pool_patches(patches))


def test_a_backbone_with_a_missing_tensor_is_refused(tiny):
    state = load_file(tiny / dinov2.WEIGHTS)
    del state["norm.weight"]
    save_file(state, tiny / dinov2.WEIGHTS)
    with pytest.raises(CorruptModelError, match="by its SHA-256"):
        dinov2.load_backbone("dinov2-s", tiny)
    (tiny / RECORD).unlink()
    with pytest.raises(CorruptModelError, match=r"norm\.weight"):
        dinov2.load_backbone("dinov2-s", tiny)


def test_the_hash_has_gradients_also_after_it_was_first_used_without(whole):
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
