"""Weight files of watermark networks: safetensors that carry what is needed to build the network.

Published checkpoints are PyTorch pickles. They are read as weights only, checked name by name,
and written anew; nothing in them is executed.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.pictures import write_atomically
from coverlock_sdk.watermarking.network import WatermarkNetwork

Build = Callable[..., WatermarkNetwork]
"""Makes a network from its settings."""

SHOWN = 5
"""How many names of a mismatch a message lists."""


def save_network(network: WatermarkNetwork, path: Path) -> None:
    """Write the weights and settings of ``network``, whole or not at all."""
    state = {name: value.contiguous() for name, value in network.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(state, metadata={"settings": json.dumps(network.settings)}))


def load_network(path: Path, build: Build) -> WatermarkNetwork:
    """The network whose weights and settings ``path`` holds, ready for use."""
    if not path.exists():
        raise MissingModelError(f"the weights {path} do not exist")
    try:
        with safe_open(path, framework="pt") as file:
            settings = json.loads((file.metadata() or {}).get("settings", "null"))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise CorruptModelError(f"the weights {path} cannot be read ({error})") from error
    if not isinstance(settings, dict):
        raise CorruptModelError(f"{path} does not say which network its weights belong to")
    try:
        network = build(**settings)
    except (TypeError, ValueError) as error:
        raise CorruptModelError(f"{path} is not for this network ({error})") from error
    load_strictly(network, state, path)
    return network.eval()


def load_strictly(network: WatermarkNetwork, state: Mapping[str, Tensor], source: Path) -> None:
    """Load ``state`` if every name and shape matches; otherwise say what does not."""
    expected = network.state_dict()
    problems = [f"{name} is missing" for name in expected if name not in state]
    problems += [f"{name} is not expected" for name in state if name not in expected]
    problems += [
        f"{name} has shape {tuple(state[name].shape)} instead of {tuple(value.shape)}"
        for name, value in expected.items()
        if name in state and state[name].shape != value.shape
    ]
    if problems:
        rest = f", and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise CorruptModelError(
            f"{source} does not fit this network: {'; '.join(problems[:SHOWN])}{rest}"
        )
    network.load_state_dict(state)


def read_checkpoint(file: Path) -> dict[str, Any]:
    """What a PyTorch file holds, weights only: a pickle that wants more is refused unexecuted."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise MissingModelError(f"the checkpoint {file} does not exist") from None
    except pickle.UnpicklingError:
        raise CorruptModelError(
            f"{file} holds more than weights, or is no PyTorch file; nothing in it was executed"
        ) from None
    except Exception as error:  # a damaged archive fails in many ways
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptModelError(f"{file} is truncated or damaged ({reason})") from None
    if not isinstance(content, dict):
        raise CorruptModelError(f"{file} holds a {type(content).__name__}, not named weights")
    return content


def without_prefix(state: Mapping[str, Any], prefix: str) -> dict[str, Tensor]:
    """The tensors of ``state``, less a prefix that wrappers of a network add to names."""
    return {
        name.removeprefix(prefix): value
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
