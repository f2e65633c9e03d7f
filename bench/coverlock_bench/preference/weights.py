"""Preference models on disk: the small one that ships, the authors' own, and yours."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib import resources
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from coverlock_bench.preference.network import PREFIXES, PUBLISHED, PreferenceNetwork
from coverlock_plugins.convnext.network import Shape
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.assets import cache_folder
from coverlock_sdk.models.checkpoints import read_checkpoint, require_match, require_weights

OFFICIAL = Path("wmforger", "preference.safetensors")
"""Where an imported checkpoint of the authors lives, below the cache folder."""


@lru_cache(maxsize=2)
def load_preference(model: str) -> PreferenceNetwork:
    """The model called "small" or "official", or the one in the safetensors file ``model``."""
    with preference_file(model) as path:
        return _load(path)


def preference_file(model: str) -> AbstractContextManager[Path]:
    """Where the weights of ``model`` are, for as long as the context lasts."""
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
            f"there is no preference model '{model}': use small, official or a file that "
            "'coverlock train preference' wrote"
        )
    return nullcontext(Path(model))


def save_preference(network: PreferenceNetwork, path: Path) -> None:
    """Write the weights in their own precision, with the shape of the network beside them."""
    shape = {
        "depths": " ".join(map(str, network.shape.depths)),
        "widths": " ".join(map(str, network.shape.widths)),
    }
    weights = {name: value.contiguous() for name, value in network.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path, metadata=shape)


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
    require_match(weights, network.state_dict(), path, "a preference model")
    network.load_state_dict(weights)
