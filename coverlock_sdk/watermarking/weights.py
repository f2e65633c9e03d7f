"""Weight files of watermark networks: safetensors that say which network they belong to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from coverlock_sdk.checkpoints import require_match
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.pictures import write_atomically
from coverlock_sdk.watermarking.network import WatermarkNetwork

Build = Callable[..., WatermarkNetwork]
"""Makes a network from its settings."""


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
    load_strictly(network, state, path, of="this network")
    return network.eval()


def load_strictly(
    network: WatermarkNetwork, state: Mapping[str, Tensor], source: Path, of: str
) -> None:
    """Load ``state`` if every name and shape matches; otherwise say what does not."""
    require_match(state, network.state_dict(), source, of)
    network.load_state_dict(state)


def without_prefix(state: Mapping[str, Any], prefix: str) -> dict[str, Tensor]:
    """The tensors of ``state``, less a prefix that wrappers of a network add to names."""
    return {
        name.removeprefix(prefix): value
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
