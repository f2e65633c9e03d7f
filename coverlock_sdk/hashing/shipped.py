"""Weights and cards of the hashes that ship inside the package."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import CorruptModelError


@lru_cache(maxsize=4)
def shipped_weights(name: str) -> dict[str, npt.NDArray[np.float32]]:
    """The weights of the hash ``name``, in single precision."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        stored = load(resource(f"{name}.safetensors").read_bytes())
    except SafetensorError as error:
        raise CorruptModelError(
            f"the weights of {name!r} are damaged ({error}): reinstall coverlock-sdk"
        ) from error
    return {key: value.astype(np.float32) for key, value in stored.items()}


@lru_cache(maxsize=4)
def shipped_card(name: str) -> dict[str, Any]:
    """The card of the hash ``name``: its network, recipe, calibration and figures."""
    card: dict[str, Any] = json.loads(resource(f"{name}.json").read_text())
    return card


def resource(name: str) -> Any:
    """A file among the weights of the package."""
    return resources.files("coverlock_sdk.hashing") / "weights" / name
