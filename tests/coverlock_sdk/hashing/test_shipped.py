import numpy as np
import pytest

from coverlock_sdk import load_hash
from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.hashing import shipped
from coverlock_sdk.plugin_calls import hash_logits


def test_a_flat_picture_has_no_code():
    red = np.broadcast_to(np.float32([[[1]], [[0]], [[0]]]), (3, 60, 80))
    logits = hash_logits(load_hash(), red[None])
    np.testing.assert_allclose(logits, 0, atol=1e-3)


def test_damaged_weights_are_refused(monkeypatch, tmp_path):
    (tmp_path / "octave.safetensors").write_bytes(b"not a weight file")
    monkeypatch.setattr(shipped, "shipped_file", lambda name: tmp_path / name)
    shipped.shipped_weights.cache_clear()
    with pytest.raises(CorruptModelError, match="reinstall"):
        shipped.shipped_weights("octave")
