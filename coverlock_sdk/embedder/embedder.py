"""The production embedder: a bundle and a key, and no PyTorch.

It has the methods with which what ``wrap`` returns marks pictures, and writes the same marks up to
the rounding of views to 8 bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle, PathLike
from coverlock_sdk.bundles.bundle_judge import bundle_judge
from coverlock_sdk.contract import ImageHash, Watermark
from coverlock_sdk.embedder.graph_plugins import open_networks
from coverlock_sdk.errors import MissingModelError, UnknownNameError
from coverlock_sdk.loading import load_hash
from coverlock_sdk.locking.binding import Binder
from coverlock_sdk.locking.coverlock import DEFAULT_ROUNDS
from coverlock_sdk.locking.hardening import Hardener
from coverlock_sdk.locking.picture_marker import PictureMarker


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
        harden: bool = True,
        threads: int | None = None,
        max_pixels: int = PictureMarker.max_pixels,
        watermark: Watermark | None = None,
        crowd: str | Path | None = None,
    ) -> Embedder:
        """Open the bundle in a folder.

        ``key`` is a ``Key``, a ``Keyring`` or a key file, of which the first key marks; ``trust``
        names the public keys or trust files of which one must have signed the bundle, or "any"
        for a bundle that needs no check. ``psnr``, ``harden`` and ``crowd`` are those of
        ``wrap``; ``threads`` limits ONNX Runtime. Picture files of more than ``max_pixels`` are
        refused. ``watermark`` is the plugin with options, for a bundle that names one.
        """
        bundle = Bundle.given(bundle, trust)
        judge = bundle_judge(bundle, key)
        networks = open_networks(bundle, threads, watermark)
        hardener = Hardener(_with_gradients(networks.hash)) if harden else None
        embedder = cls(bundle, Binder(networks, judge, DEFAULT_ROUNDS, hardener, psnr, crowd))
        embedder.max_pixels = max_pixels
        return embedder

    def __repr__(self) -> str:
        manifest, keyring = self.bundle.manifest, self.binder.judge.keyring
        return (
            f"Embedder({str(self.bundle.path)!r}, watermark={manifest.watermark!r}, "
            f"hash={manifest.hash!r}, psnr={self.binder.psnr}, keyring={keyring!r})"
        )

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self.binder.judge.bits


def _with_gradients(in_graph: ImageHash) -> ImageHash:
    """The hash as it is installed here, because a graph has no gradients; else the graph."""
    try:
        return load_hash(in_graph.name)
    except (MissingModelError, UnknownNameError):
        return in_graph
