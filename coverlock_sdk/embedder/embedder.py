"""The production embedder: a bundle and a key, and no PyTorch.

It has the methods with which what ``wrap`` returns marks pictures, and writes the same marks up to
the rounding of views to 8 bits. With the hash ``octave`` it hardens them too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle, PathLike
from coverlock_sdk.bundles.bundle_lock import bundle_lock
from coverlock_sdk.contract import Watermark
from coverlock_sdk.embedder.graph_plugins import open_networks
from coverlock_sdk.locking.embedding import Binder
from coverlock_sdk.locking.picture_marker import PictureMarker
from coverlock_sdk.locking.registry import Registry


class Embedder(PictureMarker):
    """Marks pictures with a deployed bundle. Safe to share between threads.

    Many pictures that are given at once run through the networks together.
    """

    bundle: Bundle

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

        ``key`` is a ``Key``, a ``Keyring`` or a key file, of which the first key marks; ``trust``
        names the public keys or trust files of which one must have signed the bundle, or "any"
        for a bundle that needs no check. ``psnr`` and ``registry`` are those of ``wrap``;
        ``threads`` limits ONNX Runtime. Picture files of more than ``max_pixels`` are refused.
        ``watermark`` is the plugin with options, for a bundle that names one.
        """
        bundle = Bundle.given(bundle, trust)
        lock = bundle_lock(bundle, key, registry=registry)
        assert lock.hash is not None
        networks = open_networks(bundle, lock.hash, threads, watermark)
        embedder = cls(bundle, Binder(networks, lock, psnr))
        embedder.max_pixels = max_pixels
        return embedder

    def __repr__(self) -> str:
        manifest, keyring = self.bundle.manifest, self.binder.lock.keyring
        return (
            f"Embedder({str(self.bundle.path)!r}, watermark={manifest.watermark!r}, "
            f"hash={manifest.hash!r}, psnr={self.binder.psnr}, keyring={keyring!r})"
        )

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self.binder.lock.bits
