"""Checkpoints of others: what is refused, and what the refusal says."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file  # noqa: E402

from coverlock_sdk.errors import CorruptModelError  # noqa: E402
from coverlock_sdk.models.checkpoints import (  # noqa: E402
    read_checkpoint,
    require_match,
    require_weights,
)

WEIGHTS = {"a": torch.arange(3000.0), "b": torch.zeros(2, 2)}


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, trap: Path) -> None:
        self.trap = trap

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.trap),)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "legacy.pth"])
def test_weights_are_read_from_either_format(tmp_path, name):
    file = tmp_path / name
    if name == "w.safetensors":
        save_file(WEIGHTS, file)
    else:
        torch.save(WEIGHTS, file, _use_new_zipfile_serialization=name == "w.pth")
    held = require_weights(read_checkpoint(file), file)
    assert all(torch.equal(held[key], value) for key, value in WEIGHTS.items())
    content = file.read_bytes()
    for half in (content[: len(content) // 2], b""):
        file.write_bytes(half)
        with pytest.raises(CorruptModelError, match="truncated"):
            read_checkpoint(file)


def test_a_pickle_payload_is_never_run(tmp_path):
    trap = tmp_path / "trap"
    torch.save({"a": Payload(trap)}, tmp_path / "new.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps({"a": Payload(trap)}, protocol=2))
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pth")
    for name in ("new.pth", "bare.pth", "module.pth"):
        with pytest.raises(CorruptModelError, match="more than weights"):
            read_checkpoint(tmp_path / name)
    assert not trap.exists()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_whatever_damage_does_it_is_told_in_one_sentence(tmp_path, zipped):
    file, rng = tmp_path / "w.pth", np.random.default_rng(0)
    weights = {"a": torch.zeros(2), "b": torch.ones(3)}
    torch.save(weights, file, _use_new_zipfile_serialization=zipped)
    content, refusals = file.read_bytes(), []
    for _ in range(400):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=3):
            damaged[place] = rng.integers(256)
        file.write_bytes(damaged)
        try:
            read_checkpoint(file)
        except CorruptModelError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert not any("\n" in refusal for refusal in refusals)


@pytest.mark.parametrize(
    "held", [{}, [1], {"a": 1}, {1: WEIGHTS["a"]}, {"m": WEIGHTS}, WEIGHTS["b"]]
)
def test_only_a_flat_state_dict_goes_on(held):
    with pytest.raises(CorruptModelError, match="map names to tensors"):
        require_weights(held, Path("w.pth"))
    with pytest.raises(CorruptModelError, match=r"'net' in w.pth is not a state dict"):
        require_weights(held, Path("w.pth"), "net")


def test_what_does_not_match_is_listed():
    expected = {"a": torch.zeros(3), "b": torch.zeros(2), **{f"x{i}": WEIGHTS["b"] for i in "123"}}
    with pytest.raises(CorruptModelError) as refusal:
        require_match(WEIGHTS | {"c": WEIGHTS["a"]}, expected, Path("w.pth"), "a net")
    message = str(refusal.value)
    assert "does not hold a net" in message
    assert "3 missing: x1, x2, x3;" in message
    assert "1 unknown: c;" in message
    assert "a (3000,) instead of (3,), b (2, 2) instead of (2,)" in message
    require_match(WEIGHTS, WEIGHTS, Path("w.pth"), "a net")
