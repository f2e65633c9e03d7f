"""The judge of a bundle: the bundle's format and settings, and the caller's keys."""

from __future__ import annotations

from typing import Any

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.errors import BundleError
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keys import Keyring, as_keyring
from coverlock_sdk.locking.verdict import Rule


def bundle_judge(
    bundle: Bundle,
    key: Any,
    fpr: float | None = None,
    rule: Rule | None = None,
    floor: float | None = None,
) -> Judge:
    """The judge of a bundle under ``key``; the other settings replace the bundle's own.

    The floor of a bundle goes with its rule: under another rule that one's default holds.
    """
    manifest, keyring = bundle.manifest, as_keyring(key)
    _require_key(bundle, keyring)
    if floor is None and rule in (None, manifest.rule):
        floor = manifest.floor
    return Judge(
        manifest.format,
        keyring,
        manifest.fpr if fpr is None else fpr,
        manifest.rule if rule is None else rule,
        floor,
    )


def _require_key(bundle: Bundle, keyring: Keyring | None) -> None:
    """Refuse keys that cannot be the ones the bundle's pictures are marked with."""
    wanted = bundle.manifest.key_fingerprint
    if wanted is None:
        return
    held = [key.fingerprint for key in keyring.keys] if keyring else []
    if wanted not in held:
        given = f"fingerprint {', '.join(held)}" if held else "none"
        raise BundleError(
            f"{bundle.path} was exported for the key with fingerprint {wanted}, but the key "
            f"given is {given}: open it with that key"
        )
