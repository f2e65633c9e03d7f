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
    "Attack": "contract",
    "Calibration": "calibration",
    "CoverLock": "locking.coverlock",
    "CoverLockError": "errors",
    "Defense": "contract",
    "Embedder": "embedder",
    "Identification": "locking.identification",
    "ImageHash": "contract",
    "Key": "locking.keys",
    "Keyring": "locking.keys",
    "LockedWatermark": "locking.locked_watermark",
    "Marked": "locking.embedding",
    "NetworkAttack": "contract",
    "NoDefense": "locking.coverlock",
    "OracleAttack": "contract",
    "Registry": "locking.registry",
    "PictureVerifier": "locking.picture_verifier",
    "ProtectedWatermark": "contract",
    "Settings": "verifier.verifier",
    "Verdict": "locking.verdict",
    "Verifier": "verifier.verifier",
    "Watermark": "contract",
    "hookimpl": "hookspecs",
    "load_attack": "loading",
    "load_defense": "loading",
    "load_distortion": "loading",
    "load_hash": "loading",
    "load_watermark": "loading",
    "wrap": "locking.coverlock",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'coverlock_sdk' has no attribute '{name}'")
    value = getattr(import_module(f"coverlock_sdk.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
