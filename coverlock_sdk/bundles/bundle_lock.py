"""The lock of a bundle: what its manifest says, and the caller's keys and registry."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.bundles.bundle import Bundle, Manifest
from coverlock_sdk.contract import Differentiable, ImageHash
from coverlock_sdk.errors import BundleError, CoverLockError, MissingModelError, UnknownNameError
from coverlock_sdk.hashing.shipped import shipped_file
from coverlock_sdk.loading import load_hash
from coverlock_sdk.locking.keys import Keyring, as_keyring
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.registry import Registry


def bundle_lock(
    bundle: Bundle,
    key: Any,
    fpr: float | None = None,
    registry: str | Path | Registry | None = None,
) -> Lock:
    """The lock of a bundle under ``key``; ``fpr`` replaces the bundle's own."""
    manifest, keyring = bundle.manifest, as_keyring(key)
    _require_key(bundle, keyring)
    if registry is not None and not isinstance(registry, Registry):
        registry = Registry(registry)
    return Lock(
        manifest.payload_bits,
        manifest.calibration,
        _hash_of(bundle),
        keyring,
        manifest.fpr if fpr is None else fpr,
        registry=registry,
    )


class GraphHash(ImageHash):
    """A hash that a graph computes: what the lock has to know about it, and no network."""

    def __init__(self, manifest: Manifest) -> None:
        self.name, self.input_size = manifest.hash, manifest.hash_size
        self.bands, self.calibration = manifest.bands, manifest.hash_calibration

    def logits(self, images: Images) -> Logits:
        """Never of pictures: the graph returns logits as their descriptions."""
        raise CoverLockError(f"the graph of the bundle computes '{self.name}': ask a Verifier")

    def differentiable(self) -> Differentiable | None:
        """The gradients of the hash as it is installed here, because a graph has none."""
        try:
            return load_hash(self.name).differentiable()
        except (MissingModelError, UnknownNameError):
            return None


def digest_of(image_hash: ImageHash) -> str | None:
    """The SHA-256 of the weights of a hash that registers, which a manifest pins; else None."""
    if not image_hash.registers:
        return None
    weights = shipped_file(f"{image_hash.name}.safetensors")
    if not weights.is_file():
        raise BundleError(
            f"the hash '{image_hash.name}' registers, so a bundle has to pin its weights, and it "
            "does not ship with coverlock-sdk: use 'octave'"
        )
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def _hash_of(bundle: Bundle) -> ImageHash:
    """The hash of a bundle: one that registers from this package, else a stand-in."""
    manifest = bundle.manifest
    if manifest.hash_digest is None:
        return GraphHash(manifest)
    try:
        image_hash = load_hash(manifest.hash)
    except UnknownNameError:
        raise _other_version(bundle) from None
    here = digest_of(image_hash), image_hash.bands, image_hash.calibration
    if here != (manifest.hash_digest, manifest.bands, manifest.hash_calibration):
        raise _other_version(bundle)
    return image_hash


def _other_version(bundle: Bundle) -> BundleError:
    made = bundle.manifest.made.get("coverlock-sdk", "the version that exported it")
    return BundleError(
        f"{bundle.path} was exported with another version of the hash '{bundle.manifest.hash}' "
        f"than this coverlock-sdk has: install {made}, or export the bundle again"
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
