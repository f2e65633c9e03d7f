"""Weight files compress better when their last digits are zero, and say the same."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from scripts.round_weights import main

WEIGHTS = Path(__file__).parents[2] / "plugins/coverlock_plugins"


def test_rounded_weights_are_nearly_the_same_and_compress_better(tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    steps = np.array([7, 2**40])
    save_file({"weight": values, "steps": steps}, path, {"settings": "{}"})
    monkeypatch.setattr(sys, "argv", ["round_weights.py", str(path)])
    main()
    kept = load_file(path)
    assert np.all(np.abs(kept["weight"] - values) <= np.abs(values) * 2**-16)
    assert np.array_equal(kept["steps"], steps)
    assert safe_open(path, "numpy").metadata() == {"settings": "{}"}
    assert len(zlib.compress(kept["weight"].tobytes())) < 0.85 * len(
        zlib.compress(values.tobytes())
    )
    once = path.read_bytes()
    main()
    assert path.read_bytes() == once


@pytest.mark.parametrize("name", ["cin", "mbrs"])
def test_the_large_weights_that_ship_are_rounded(name, tmp_path, monkeypatch):
    shipped = (WEIGHTS / name / "weights" / f"{name}.safetensors").read_bytes()
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(shipped)
    monkeypatch.setattr(sys, "argv", ["round_weights.py", str(copy)])
    main()
    assert copy.read_bytes() == shipped
