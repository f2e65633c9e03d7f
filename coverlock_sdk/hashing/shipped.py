"""The weights and cards of the hashes that ship inside the package."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import CorruptModelError


@lru_cache(maxsize=8)
def shipped_weights(name: str) -> dict[str, npt.NDArray[np.float32]]:
    """The arrays of the hash ``name``, in single precision."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        stored = load(shipped_file(f"{name}.safetensors").read_bytes())
    except SafetensorError as error:
        raise CorruptModelError(
            f"the weights of '{name}' are damaged ({error}): reinstall coverlock-sdk"
        ) from error
    return {key: value.astype(np.float32) for key, value in stored.items()}


@lru_cache(maxsize=4)
def shipped_card(name: str) -> dict[str, Any]:
    """How the hash ``name`` came to be: its settings, calibration and figures."""
    card: dict[str, Any] = json.loads(shipped_file(f"{name}.json").read_text())
    return card


def shipped_file(name: str) -> Path:
    """Where a file of the hashes that ship would be; it may not be there."""
    return Path(str(resources.files(__package__) / "weights" / name))
