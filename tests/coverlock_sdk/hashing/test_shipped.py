from __future__ import annotations

from pathlib import Path

import pytest

from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.hashing import shipped


def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nano.safetensors").write_bytes(b"not a weight file")
    monkeypatch.setattr(shipped, "_resource", lambda name: tmp_path / name)
    shipped.shipped_weights.cache_clear()
    with pytest.raises(CorruptModelError, match="reinstall"):
        shipped.shipped_weights("nano")
