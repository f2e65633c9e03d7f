"""What the SDK itself registers, through the same hooks as everybody else."""

from __future__ import annotations

from collections.abc import Callable

from coverlock_sdk.hookspecs import hookimpl
from coverlock_sdk.images.distortions import EVALUATION, HARDER


@hookimpl
def register_hashes(register: Callable[..., None]) -> None:
    """The default hash."""
    from coverlock_sdk.hashing.octave import OctaveCode

    register(OctaveCode)


@hookimpl
def register_defenses(register: Callable[..., None]) -> None:
    """CoverLock, and the absence of any defence."""
    from coverlock_sdk.locking.coverlock import CoverLock, NoDefense

    register(CoverLock)
    register(NoDefense)


@hookimpl
def register_distortions(register: Callable[..., None]) -> None:
    """The paper's six evaluation distortions, and harder ones."""
    for name, distortion in {**EVALUATION, **HARDER}.items():
        register(distortion, name)
