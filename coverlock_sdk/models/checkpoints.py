"""Weight files, ours and published ones: only weights are read, and every name is checked."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.files import write_atomically

LISTED = 5
"""How many names of a kind an error lists."""


def write_weights(
    path: Path, state: Mapping[str, Tensor], about: Mapping[str, str] | None = None
) -> None:
    """Write a state dict, and what it belongs to, as safetensors, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous() for name, value in state.items()}
    write_atomically(path, save(weights, dict(about) if about else None))


def read_weights(path: Path, of: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """What ``write_weights`` wrote: what the weights belong to, and the weights."""
    try:
        with safe_open(path, framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return file.metadata() or {}, state
    except (OSError, SafetensorError) as error:
        raise CorruptModelError(f"{path} cannot be read as {of} ({error})") from error


def read_checkpoint(file: Path) -> Any:
    """What a ``.safetensors`` file or a PyTorch checkpoint holds, as far as it is data."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL:?\s+([\w.]+)", str(error))
        wanted = f" ({named[1]})" if named else ""
        raise CorruptModelError(
            f"{file} holds more than weights{wanted}, so nothing of it was loaded: "
            "save its state_dict alone"
        ) from error
    except LookupError as error:  # what the unpickler says of text is a number
        raise CorruptModelError(f"{file} is not a checkpoint") from error
    except Exception as error:  # a damaged file can make the readers fail in any way
        reason = re.split(r"\. |\n", str(error))[0] or "it ends too early"
        raise CorruptModelError(f"{file} is truncated or not a checkpoint ({reason})") from error


def require_weights(held: Any, file: Path, part: str | None = None) -> dict[str, Tensor]:
    """``held``, all of ``file`` or a ``part``, if it is a flat state dict: what converters take."""
    if isinstance(held, Mapping) and held and all(_is_weight(*item) for item in held.items()):
        return dict(held)
    named = f"'{part}' in {file}" if part else file
    raise CorruptModelError(f"{named} is not a state dict: it should map names to tensors")


def require_match(
    weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], file: Path, of: str
) -> None:
    """Refuse weights whose names and shapes are not exactly the ``expected`` ones."""
    reshaped = [
        f"{name} {tuple(weights[name].shape)} instead of {tuple(value.shape)}"
        for name, value in expected.items()
        if name in weights and weights[name].shape != value.shape
    ]
    differences = {
        "missing": [name for name in expected if name not in weights],
        "unknown": [name for name in weights if name not in expected],
        "of another shape": reshaped,
    }
    if any(differences.values()):
        found = "; ".join(
            f"{len(names)} {kind}: {', '.join(names[:LISTED])}"
            for kind, names in differences.items()
            if names
        )
        raise CorruptModelError(f"{file} does not hold {of}: {found}")


def _is_weight(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, Tensor)
