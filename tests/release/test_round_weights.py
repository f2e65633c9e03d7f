"""Weight files compress better when their last digits are zero, and say the same."""

import sys
from pathlib import Path

import pytest

from scripts.round_weights import main

WEIGHTS = Path(__file__).parents[2] / "plugins/coverlock_plugins"


@pytest.mark.parametrize("name", ["cin", "mbrs"])
def test_the_large_weights_that_ship_are_rounded(name, tmp_path, monkeypatch):
    shipped = (WEIGHTS / name / "weights" / f"{name}.safetensors").read_bytes()
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(shipped)
    monkeypatch.setattr(sys, "argv", ["round_weights.py", str(copy)])
    main()
    assert copy.read_bytes() == shipped
