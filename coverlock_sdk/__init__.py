"""CoverLock SDK: find out whether an image watermark can be forged, and lock it to its picture.

Names are imported on first use, so that ``import coverlock_sdk`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverlock_sdk.calibration import Calibration
    from coverlock_sdk.contract import (
        Attack,
        Defense,
        ImageHash,
        OracleAttack,
        ProtectedWatermark,
        Watermark,
    )
    from coverlock_sdk.errors import CoverLockError
    from coverlock_sdk.framing import Framing
    from coverlock_sdk.hookspecs import hookimpl
    from coverlock_sdk.identification import Identification, MessageBook
    from coverlock_sdk.keys import Key, Keyring, codeword
    from coverlock_sdk.lock import CoverLock, Marked, NoDefense, wrap
    from coverlock_sdk.manager import (
        load_attack,
        load_defense,
        load_distortion,
        load_hash,
        load_watermark,
    )
    from coverlock_sdk.verdict import Verdict

_HOMES = {
    "Attack": "contract",
    "Calibration": "calibration",
    "CoverLock": "lock",
    "CoverLockError": "errors",
    "Defense": "contract",
    "Framing": "framing",
    "Identification": "identification",
    "ImageHash": "contract",
    "Key": "keys",
    "Keyring": "keys",
    "Marked": "lock",
    "MessageBook": "identification",
    "NoDefense": "lock",
    "OracleAttack": "contract",
    "ProtectedWatermark": "contract",
    "Verdict": "verdict",
    "Watermark": "contract",
    "codeword": "keys",
    "hookimpl": "hookspecs",
    "load_attack": "manager",
    "load_defense": "manager",
    "load_distortion": "manager",
    "load_hash": "manager",
    "load_watermark": "manager",
    "wrap": "lock",
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
