"""``dinov2-s/b/l/g``: the paper's hash, a trained head on a frozen DINOv2 (appendix B.1)."""

from __future__ import annotations

from functools import partial

from coverlock_plugins.dinov2.hash import VARIANTS, Dinov2Hash
from coverlock_plugins.dinov2.sources import Dinov2Weights, import_file
from coverlock_sdk import hookimpl
from coverlock_sdk.hookspecs import Register


@hookimpl
def register_hashes(register: Register) -> None:
    """Offer a hash for each size of DINOv2."""
    for name in VARIANTS:
        register(partial(Dinov2Hash, name), name)


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` know where the backbones come from."""
    for name in VARIANTS:
        register(Dinov2Weights(name))


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import`` take files of backbones that users have."""
    for name in VARIANTS:
        register(partial(import_file, name), name)
