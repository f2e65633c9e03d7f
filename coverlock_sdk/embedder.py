"""The production embedder: a bundle and a key, ONNX Runtime on the processor, and no PyTorch.

It marks pictures as what ``wrap`` returns does, and sees them in 8 bits as a ``Verifier`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, PAYLOADS, Bundle, Manifest, PathLike
from coverlock_sdk.bundles.bundle_lock import bundle_lock, open_plugin
from coverlock_sdk.contract import ImageHash, Watermark
from coverlock_sdk.errors import BundleError
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.locking.embedding import Binder
from coverlock_sdk.locking.picture_marker import PictureMarker
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.verifier.onnx_runtime import GraphSession, cpu_session


class Embedder(PictureMarker):
    """Marks pictures with a deployed bundle. Safe to share between threads."""

    def __init__(self, bundle: Bundle, binder: Binder) -> None:
        self.bundle, self.binder = bundle, binder

    @classmethod
    def open(
        cls,
        bundle: PathLike | Bundle,
        *,
        key: Any = None,
        trust: Any = None,
        psnr: float | None = None,
        registry: str | Path | Registry | None = None,
        threads: int | None = None,
        max_pixels: int = PictureMarker.max_pixels,
        watermark: Watermark | None = None,
    ) -> Embedder:
        """Open the bundle in a folder.

        ``key``, ``psnr`` and ``registry`` are those of ``wrap``; ``trust`` names the public keys of
        which one must have signed the bundle, or "any" for a bundle that needs no check.
        ``threads`` limits ONNX Runtime. Picture files of more than ``max_pixels`` are refused.
        ``watermark`` is the plugin with options, for a bundle that names one.
        """
        bundle = Bundle.given(bundle, trust)
        lock = bundle_lock(bundle, key, registry=registry)
        assert lock.hash is not None
        networks = GraphNetworks(bundle, lock.hash, threads, watermark)
        embedder = cls(bundle, Binder(networks, lock, psnr))
        embedder.max_pixels = max_pixels
        return embedder

    def __repr__(self) -> str:
        manifest, keyring = self.bundle.manifest, self.binder.lock.keyring
        return (
            f"Embedder({str(self.bundle.path)!r}, watermark={manifest.watermark!r}, "
            f"hash={manifest.hash!r}, psnr={self.binder.psnr}, keyring={keyring!r})"
        )


class GraphNetworks(Networks):
    """The networks of a bundle; decoder and hash of one picture are one run of one graph.

    ``plugin`` is the one that the bundle names, perhaps with options.
    """

    def __init__(
        self, bundle: Bundle, image_hash: ImageHash, threads: int | None, plugin: Watermark | None
    ) -> None:
        def session(graph: str) -> GraphSession:
            return GraphSession(cpu_session(bundle.read(bundle.file(graph)), threads))

        manifest = bundle.manifest
        if manifest.plugin is None and "embed" not in manifest.graphs:
            raise BundleError(
                f"{bundle.path} cannot mark pictures: it has no embed.onnx, because "
                f"{manifest.parity.get('embed', {}).get('left_out', 'it was exported without one')}"
            )
        self._size = manifest.graph_size
        self._hashing = None if image_hash.registers else session("hash")
        self._together = session("verify") if manifest.plugin is None else None
        if self._together is None:
            watermark = open_plugin(manifest, plugin)
        else:
            watermark = GraphWatermark(manifest, session("embed"), self._together)
        super().__init__(watermark, image_hash)

    def logits(self, views: Sequence[Images]) -> tuple[Logits, Any]:
        """Payload logits of each view, and what the hash keeps of it."""
        if self._together is None or not views:
            return super().logits(views)
        decoded, described = self._together.run(OUTPUTS, {INPUT: _pixels(np.stack(views))})
        return decoded, described

    def described(self, views: Sequence[Images]) -> Any:
        """What the hash keeps of each view; a hash that registers needs no graph for it."""
        if self._hashing is None or not views:
            return super().described(views)
        seen = np.stack([resample(view, self._size) for view in views])
        return self._hashing.run(OUTPUTS[1:], {INPUT: _pixels(seen)})[0]


class GraphWatermark(Watermark):
    """Encoder and decoder of a bundle."""

    def __init__(self, manifest: Manifest, encoder: GraphSession, decoder: GraphSession) -> None:
        self.name, self.bits = manifest.watermark, manifest.payload_bits
        self.native_size, self.calibration = manifest.size, manifest.calibration
        self._encoder, self._decoder = encoder, decoder

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Add what the encoder would add to the rounded pictures."""
        feed = {INPUT: _pixels(images), PAYLOADS: payloads}
        marked: Images = np.clip(images + self._encoder.run(["residuals"], feed)[0], 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Run the decoder."""
        return self._decoder.run(OUTPUTS[:1], {INPUT: _pixels(images)})[0]


def _pixels(images: Images) -> Pixels:
    """Pictures (N, 3, H, W) in [0, 1] as graphs take them: uint8 (N, H, W, 3)."""
    pixels: Any = np.rint(np.clip(images, 0, 1) * np.float32(255)).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(pixels, 1, -1))
