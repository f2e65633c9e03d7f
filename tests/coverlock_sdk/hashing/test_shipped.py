from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import ImageHash, load_hash
from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.hashing import shipped
from coverlock_sdk.plugin_calls import picture_logits


@pytest.fixture(params=["keen", "nano", "duo"])
def network(request: pytest.FixtureRequest) -> ImageHash:
    """Each hash whose weights ship."""
    return load_hash(request.param)


def test_a_flat_picture_has_finite_logits(network: ImageHash) -> None:
    assert np.isfinite(picture_logits(network, Image.new("RGB", (80, 60), "red"))).all()


def test_numpy_and_torch_agree(network: ImageHash) -> None:
    torch = pytest.importorskip("torch")
    images = np.random.default_rng(0).random((3, 3, *network.input_size), dtype=np.float32)
    with torch.inference_mode():
        expected = network.module()(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(network.logits(images), expected, atol=2e-3)


def test_they_need_neither_torch_nor_onnxruntime() -> None:
    program = (
        "import sys, numpy as np; from coverlock_sdk import load_hash\n"
        "for hash in (load_hash('keen'), load_hash('nano'), load_hash('duo')):\n"
        "    hash.logits(np.zeros((1, 3, *hash.input_size), np.float32))\n"
        "print('torch' in sys.modules or 'onnxruntime' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nano.safetensors").write_bytes(b"not a weight file")
    monkeypatch.setattr(shipped, "_resource", lambda name: tmp_path / name)
    shipped.shipped_weights.cache_clear()
    with pytest.raises(CorruptModelError, match="reinstall"):
        shipped.shipped_weights("nano")
