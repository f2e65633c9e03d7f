"""CoverLock SDK: find out whether an image watermark can be forged, and lock it to its picture.

Names are imported on first use, so that ``import coverlock_sdk`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverlock_sdk.calibration import Calibration as Calibration
    from coverlock_sdk.contract import Attack as Attack
    from coverlock_sdk.contract import Defense as Defense
    from coverlock_sdk.contract import ImageHash as ImageHash
    from coverlock_sdk.contract import NetworkAttack as NetworkAttack
    from coverlock_sdk.contract import OracleAttack as OracleAttack
    from coverlock_sdk.contract import ProtectedWatermark as ProtectedWatermark
    from coverlock_sdk.contract import Watermark as Watermark
    from coverlock_sdk.embedder import Embedder as Embedder
    from coverlock_sdk.errors import CoverLockError as CoverLockError
    from coverlock_sdk.hookspecs import hookimpl as hookimpl
    from coverlock_sdk.loading import load_attack as load_attack
    from coverlock_sdk.loading import load_defense as load_defense
    from coverlock_sdk.loading import load_distortion as load_distortion
    from coverlock_sdk.loading import load_hash as load_hash
    from coverlock_sdk.loading import load_watermark as load_watermark
    from coverlock_sdk.locking.coverlock import CoverLock as CoverLock
    from coverlock_sdk.locking.coverlock import NoDefense as NoDefense
    from coverlock_sdk.locking.coverlock import wrap as wrap
    from coverlock_sdk.locking.embedding import Marked as Marked
    from coverlock_sdk.locking.identification import Identification as Identification
    from coverlock_sdk.locking.keys import Key as Key
    from coverlock_sdk.locking.keys import Keyring as Keyring
    from coverlock_sdk.locking.locked_watermark import LockedWatermark as LockedWatermark
    from coverlock_sdk.locking.picture_verifier import PictureVerifier as PictureVerifier
    from coverlock_sdk.locking.registry import Registry as Registry
    from coverlock_sdk.locking.verdict import Verdict as Verdict
    from coverlock_sdk.verifier.verifier import Settings as Settings
    from coverlock_sdk.verifier.verifier import Verifier as Verifier

_HOMES = {
    "calibration": ("Calibration",),
    "contract": (
        *("Attack", "NetworkAttack", "OracleAttack"),
        *("Defense", "ImageHash", "ProtectedWatermark", "Watermark"),
    ),
    "embedder": ("Embedder",),
    "errors": ("CoverLockError",),
    "hookspecs": ("hookimpl",),
    "loading": ("load_attack", "load_defense", "load_distortion", "load_hash", "load_watermark"),
    "locking.coverlock": ("CoverLock", "NoDefense", "wrap"),
    "locking.embedding": ("Marked",),
    "locking.identification": ("Identification",),
    "locking.keys": ("Key", "Keyring"),
    "locking.locked_watermark": ("LockedWatermark",),
    "locking.picture_verifier": ("PictureVerifier",),
    "locking.registry": ("Registry",),
    "locking.verdict": ("Verdict",),
    "verifier.verifier": ("Settings", "Verifier"),
}
"""Modules, and the public names that each of them has."""

__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"coverlock_sdk.{home}"), name)
            return value
    raise AttributeError(f"module 'coverlock_sdk' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
