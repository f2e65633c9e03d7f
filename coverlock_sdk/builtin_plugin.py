"""What the SDK itself registers, through the same hooks as everybody else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from coverlock_sdk.hookspecs import hookimpl
from coverlock_sdk.images.distortions import EVALUATION, HARDER


@hookimpl
def register_hashes(register: Callable[..., None]) -> None:
    """The hashes that ship inside the package."""
    from coverlock_sdk.hashing.dinov2 import VARIANTS, Dinov2Hash
    from coverlock_sdk.hashing.octave import OctaveCode

    register(OctaveCode)
    for name in VARIANTS:
        register(partial(Dinov2Hash, name), name)


@hookimpl
def register_assets(register: Callable[..., None]) -> None:
    """The backbones of the paper's hashes."""
    from coverlock_sdk.hashing.dinov2 import VARIANTS
    from coverlock_sdk.hashing.dinov2_weights import Dinov2Weights

    for name in VARIANTS:
        register(Dinov2Weights(name))


@hookimpl
def register_importers(register: Callable[..., None]) -> None:
    """The same backbones from files that users have."""
    from coverlock_sdk.hashing.dinov2 import VARIANTS
    from coverlock_sdk.hashing.dinov2_weights import import_file

    for name in VARIANTS:
        register(partial(import_file, name), name)


@hookimpl
def register_defenses(register: Callable[..., None]) -> None:
    """CoverLock, and the absence of any defence."""
    register(_coverlock, "coverlock")
    register(_no_defense, "none")


@hookimpl
def register_distortions(register: Callable[..., None]) -> None:
    """The paper's six evaluation distortions, and harder ones."""
    for name, distortion in {**EVALUATION, **HARDER}.items():
        register(distortion, name)


def _coverlock(**options: Any) -> Any:
    from coverlock_sdk.locking.coverlock import CoverLock

    return CoverLock(**options)


def _no_defense(**options: Any) -> Any:
    from coverlock_sdk.locking.coverlock import NoDefense

    return NoDefense(**options)
