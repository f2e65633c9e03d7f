"""What is timed: a bundle, the same networks in PyTorch, and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from coverlock_sdk import Keyring, LockedWatermark, wrap
from coverlock_sdk.arrays import Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.plugin_calls import fixed_size

if TYPE_CHECKING:
    from coverlock_export.graphs import Verification

MESSAGE = "latency"


@dataclass(frozen=True)
class Subject:
    """One bundle and the lock it was exported from."""

    bundle: Bundle
    lock: LockedWatermark
    jpegs: tuple[bytes, ...]
    """Picture files as they arrive, enough for the largest batch."""

    @property
    def name(self) -> str:
        """Watermark and hash."""
        manifest = self.bundle.manifest
        return f"{manifest.watermark}+{manifest.hash}"

    @cached_property
    def network(self) -> Verification:
        """The fused graph before export."""
        from coverlock_export.graphs import Verification

        decoder, image_hash = self.lock.watermark.decoder_module(), self.lock.hash
        assert decoder is not None
        assert image_hash is not None
        module = image_hash.module()
        assert module is not None
        size = fixed_size(self.lock.watermark, "a graph")
        return Verification(decoder, module, size, image_hash.input_size).eval()

    def run(self, images: Pixels) -> tuple[Logits, Logits]:
        """Both networks in PyTorch's eager mode."""
        import torch

        with torch.inference_mode():
            read, described = self.network(torch.from_numpy(images))
            return read.numpy(), described.numpy()

    @cached_property
    def gflop(self) -> dict[str, float]:
        """Billions of additions and multiplications per picture, in decoder and hash."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.utils.flop_counter import FlopCounterMode

        picture = torch.zeros(1, *self.bundle.manifest.graph_size, 3, dtype=torch.uint8)
        counter = FlopCounterMode(display=False)
        # Fused attention is not counted.
        with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), counter:
            self.network(picture)
        counts = counter.get_flop_counts()
        parts = {"decoder": "Verification.decoder", "hash": "Verification.hash"}
        return {part: sum(counts.get(module, {}).values()) / 1e9 for part, module in parts.items()}


def subject_of(bundle: Bundle, jpegs: tuple[bytes, ...], key: Keyring | None = None) -> Subject:
    """A bundle whose watermark and hash are installed here."""
    manifest = bundle.manifest
    lock = wrap(manifest.watermark, hash=manifest.hash, key=key, fpr=manifest.fpr)
    return Subject(bundle, lock, jpegs)
