"""Weight files of watermark networks: safetensors that say which network they belong to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coverlock_plugins.networks.network import WatermarkNetwork
from coverlock_sdk.documents import DocumentError, parsed
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.checkpoints import (
    read_weights,
    require_match,
    require_weights,
    write_weights,
)

Build = Callable[..., WatermarkNetwork]
"""Makes a network from its settings."""


def save_network(network: WatermarkNetwork, path: Path) -> None:
    """Write the weights and settings of ``network``, whole or not at all."""
    write_weights(path, network.state_dict(), settings_of(network))


def settings_of(network: WatermarkNetwork) -> dict[str, str]:
    """What a weight file says of the network its weights belong to."""
    return {"settings": json.dumps(network.settings)}


def load_network(path: Path, build: Build) -> WatermarkNetwork:
    """The network whose weights and settings ``path`` holds, ready for use."""
    if not path.exists():
        raise MissingModelError(f"the weights {path} do not exist")
    about, state = read_weights(path, of="weights")
    try:
        settings = parsed(about.get("settings", "").encode(), dict[str, Any])
    except DocumentError:
        raise CorruptModelError(
            f"{path} does not say which network its weights belong to"
        ) from None
    network = _built(build, settings, path, of="this network")
    require_match(state, network.state_dict(), path, of="this network")
    network.load_state_dict(state)
    return network.eval()


def fill_network(network: WatermarkNetwork, path: Path, build: Build) -> None:
    """Give ``network`` the weights in ``path``, which may be those of another size of picture."""
    state = load_network(path, build).state_dict()
    require_match(state, network.state_dict(), path, of="a network of these settings")
    network.load_state_dict(state)


def import_network(
    build: Build,
    settings: Mapping[str, Any],
    state: Mapping[str, Tensor],
    source: Path,
    of: str,
    target: Path,
) -> Path:
    """Write somebody else's weights to ``target``, if every name and shape matches.

    They are compared before memory is taken, of which a strange file might ask any amount.
    """
    with torch.device("meta"):
        expected = _built(build, settings, source, of).state_dict()
    require_match(state, expected, source, of)
    network = build(**settings)
    network.load_state_dict(state)
    save_network(network, target)
    return target


def unwrapped(held: Any, file: Path, part: str | None = None) -> dict[str, Tensor]:
    """The state dict ``held``, without what ``DataParallel`` puts before every name."""
    weights = require_weights(held, file, part)
    return {name.removeprefix("module."): value for name, value in weights.items()}


def _built(build: Build, settings: Mapping[str, Any], source: Path, of: str) -> WatermarkNetwork:
    try:
        return build(**settings)
    except (TypeError, ValueError) as error:
        raise CorruptModelError(f"{source} is not for {of} ({error})") from error
