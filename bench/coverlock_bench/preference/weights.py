"""Preference models on disk: the small one that ships, the authors' own, and yours."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib import resources
from pathlib import Path

from torch import Tensor

from coverlock_bench.preference.network import PREFIXES, PUBLISHED, PreferenceNetwork
from coverlock_plugins.convnext.network import Shape
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.assets import cache_folder
from coverlock_sdk.models.checkpoints import (
    read_checkpoint,
    read_weights,
    require_match,
    require_weights,
    write_weights,
)

OFFICIAL = Path("wmforger", "preference.safetensors")
"""Place of the authors' imported checkpoint, below the cache folder."""


@lru_cache(maxsize=2)
def load_preference(model: str) -> PreferenceNetwork:
    """The model called "small" or "official", or the one in the safetensors file ``model``."""
    with preference_file(model) as path:
        return _load(path)


def preference_file(model: str) -> AbstractContextManager[Path]:
    """The file of ``model``'s weights, valid while the context lasts."""
    if model == "small":
        return resources.as_file(resources.files(__package__) / "small.safetensors")
    if model == "official":
        path = cache_folder() / OFFICIAL
        if not path.exists():
            raise MissingModelError(
                f"the authors' preference model is not in {path.parent}: "
                "import it with 'coverlock import wmforger convnext_pref_model.pth'"
            )
        return nullcontext(path)
    if not Path(model).is_file():
        raise MissingModelError(
            f"there is no preference model '{model}': use small, official or a safetensors file"
        )
    return nullcontext(Path(model))


def shape_of(network: PreferenceNetwork) -> dict[str, str]:
    """What a weight file says about its network."""
    shape = {"depths": network.shape.depths, "widths": network.shape.widths}
    return {name: " ".join(map(str, sizes)) for name, sizes in shape.items()}


def import_official(file: Path) -> Path:
    """Convert the authors' ``convnext_pref_model.pth``; only weights are read from it."""
    checkpoint = read_checkpoint(file)
    if not isinstance(checkpoint, dict) or "model" not in checkpoint:
        raise CorruptModelError(
            f"{file} is not a checkpoint of WMForger's preference model: it holds no 'model'"
        )
    theirs = require_weights(checkpoint["model"], file)
    network = PreferenceNetwork(PUBLISHED)
    _fill(network, {_renamed(name): value for name, value in theirs.items()}, file)
    path = cache_folder() / OFFICIAL
    write_weights(path, network.state_dict(), shape_of(network))
    return path


def _renamed(name: str) -> str:
    for theirs, ours in PREFIXES.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _load(path: Path) -> PreferenceNetwork:
    about, stored = read_weights(path, of="a preference model")
    try:
        depths, widths = (tuple(map(int, about[name].split())) for name in ("depths", "widths"))
    except (KeyError, ValueError) as error:
        raise CorruptModelError(f"{path} is not a preference model ({error})") from error
    weights = {name: value.float() for name, value in stored.items()}
    network = PreferenceNetwork(Shape(depths, widths))
    _fill(network, weights, path)
    return network.eval().requires_grad_(False)


def _fill(network: PreferenceNetwork, weights: dict[str, Tensor], path: Path) -> None:
    """Load ``weights``, which must match the network exactly."""
    require_match(weights, network.state_dict(), path, "a preference model")
    network.load_state_dict(weights)
