"""Preference models on disk: the small one that ships, the authors' own, and yours."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from coverlock_bench.preference.network import PREFIXES, PUBLISHED, PreferenceNetwork
from coverlock_plugins.convnext.network import Shape
from coverlock_sdk.assets import cache_folder
from coverlock_sdk.errors import CorruptModelError, MissingModelError

OFFICIAL = Path("wmforger", "preference.safetensors")
"""Where an imported checkpoint of the authors lives, below the cache folder."""


@lru_cache(maxsize=2)
def load_preference(model: str) -> PreferenceNetwork:
    """The model called "small" or "official", or the one in the safetensors file ``model``."""
    if model == "small":
        with resources.as_file(resources.files(__package__) / "small.safetensors") as path:
            return _load(path)
    if model == "official":
        path = cache_folder() / OFFICIAL
        if not path.exists():
            raise MissingModelError(
                f"the authors' preference model is not in {path.parent}: "
                "import it with 'coverlock import wmforger convnext_pref_model.pth'"
            )
        return _load(path)
    if not Path(model).is_file():
        raise MissingModelError(
            f"there is no preference model '{model}': use small, official or a file that "
            "'coverlock train preference' wrote"
        )
    return _load(Path(model))


def save_preference(network: PreferenceNetwork, path: Path) -> None:
    """Write weights in half precision, with the shape of the network beside them."""
    shape = {
        "depths": " ".join(map(str, network.shape.depths)),
        "widths": " ".join(map(str, network.shape.widths)),
    }
    weights = {n: v.half().contiguous() for n, v in network.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path, metadata=shape)


def import_official(file: Path) -> Path:
    """Convert the authors' ``convnext_pref_model.pth``; only weights are read from it."""
    try:
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
        theirs: dict[str, Tensor] = checkpoint["model"]
        weights = {_renamed(name): value for name, value in theirs.items()}
    except Exception as error:  # pickles fail in as many ways as there are pickles
        raise CorruptModelError(
            f"{file} is not a checkpoint of WMForger's preference model ({error})"
        ) from error
    network = PreferenceNetwork(PUBLISHED)
    _fill(network, weights, file)
    path = cache_folder() / OFFICIAL
    save_preference(network, path)
    return path


def _renamed(name: str) -> str:
    for prefix in PREFIXES:
        if name.startswith(prefix.theirs):
            return prefix.ours + name.removeprefix(prefix.theirs)
    return name


def _load(path: Path) -> PreferenceNetwork:
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            depths, widths = (tuple(map(int, about[n].split())) for n in ("depths", "widths"))
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise CorruptModelError(f"{path} is not a preference model ({error})") from error
    network = PreferenceNetwork(Shape(depths, widths))
    _fill(network, weights, path)
    return network.eval().requires_grad_(False)


def _fill(network: PreferenceNetwork, weights: dict[str, Tensor], path: Path) -> None:
    """Load ``weights``, which must be exactly those that the network has."""
    wanted = {name: value.shape for name, value in network.state_dict().items()}
    given = {name: value.shape for name, value in weights.items()}
    if wanted != given:
        names = sorted(n for n in wanted.keys() | given.keys() if wanted.get(n) != given.get(n))
        raise CorruptModelError(
            f"{path} does not fit the preference model: {len(names)} weights are missing, unknown "
            f"or of another shape, the first of them '{names[0]}'"
        )
    network.load_state_dict(weights)
