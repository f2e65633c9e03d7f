"""What a bundle needs of the machine that opens it: keys, the hash, sometimes a plugin.

A watermark that is not a network is decoded on the host, by the plugin that the bundle names. The
bundle then holds the graph of the hash alone, and never code.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Images, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle, HostPlugin, Manifest
from coverlock_sdk.contract import Differentiable, ImageHash, Watermark
from coverlock_sdk.errors import BundleError, CoverLockError, UnknownNameError
from coverlock_sdk.hashing.shipped import shipped_file
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.loading import load_hash, load_watermark
from coverlock_sdk.locking.keys import Keyring, as_keyring
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.registry import Registry, as_registry
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.plugin_manager import plugin_manager


def bundle_lock(
    bundle: Bundle,
    key: Any,
    fpr: float | None = None,
    registry: str | Path | Registry | None = None,
) -> Lock:
    """The lock of a bundle under ``key``; ``fpr`` replaces the bundle's own."""
    manifest, keyring = bundle.manifest, as_keyring(key)
    _require_key(bundle, keyring)
    return Lock(
        manifest.payload_bits,
        manifest.calibration,
        _hash_of(bundle),
        keyring,
        manifest.fpr if fpr is None else fpr,
        registry=as_registry(registry),
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
        except (CoverLockError, ImportError):
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


PROBE_SIDE = 256

TOLERANCE = 1e-3
"""How far logits of the test picture may be off, relative to the largest: float rounding."""


def pinned_plugin(watermark: Watermark) -> HostPlugin:
    """The plugin that ``watermark`` comes from; it must be an installed package."""
    installed = plugin_manager().provider("watermark", watermark.name)
    name, _, version = installed.rpartition(" ")
    if not name or not version[0].isdigit():
        raise BundleError(
            f"the watermark '{watermark.name}' is no network and comes from {installed}: a "
            "bundle can only name an installed package, so make it a plugin"
        )
    return HostPlugin(name, version, _probed(watermark))


def open_plugin(manifest: Manifest, given: Watermark | None) -> Watermark:
    """The plugin that decodes on the host, as installed here, or as ``given`` with its options.

    It must have the version that was exported and decode a test picture as it did then.
    """
    name, plugin = manifest.watermark, manifest.plugin
    assert plugin is not None
    wanted = f"{plugin.distribution} {plugin.version}"
    try:
        watermark = load_watermark(name if given is None else given)
        installed = plugin_manager().provider("watermark", name)
    except UnknownNameError:
        raise BundleError(
            f"the watermark '{name}' decodes on this machine, and its plugin is missing: "
            f"pip install '{plugin.distribution}=={plugin.version}'"
        ) from None
    if installed != wanted or watermark.name != name:
        raise BundleError(
            f"the bundle was exported with '{name}' of {wanted}, and here is "
            f"'{watermark.name}' of {installed}: install that version, or export again"
        )
    found, probe = np.array(_probed(watermark)), np.array(plugin.probe)
    margin = TOLERANCE * max(1.0, np.abs(probe).max(initial=0))
    if found.shape != probe.shape or not np.allclose(found, probe, rtol=0, atol=margin):
        raise BundleError(
            f"'{name}' decodes a test picture differently than when the bundle was exported: "
            "a package that it uses has changed, or it needs the options of the export "
            "(Settings(watermark=...))"
        )
    return watermark


def _probed(watermark: Watermark) -> tuple[float, ...]:
    networks = Networks(watermark, None)
    [logits] = networks.decoded(networks.views([Picture(_test_picture())]))
    return tuple(round(float(value), 6) for value in logits)


def _test_picture() -> Pixels:
    """A slope with noise on it, the same on every machine."""
    noise = np.random.RandomState(0).randint(-24, 25, (PROBE_SIDE, PROBE_SIDE, 3))
    slope = np.add.outer(np.arange(PROBE_SIDE), np.arange(PROBE_SIDE)) // 3 + 40
    return np.clip(slope[..., None] + noise, 0, 255).astype(np.uint8)
