"""What is timed: a bundle, the same networks in PyTorch, and pictures."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coverlock_bench.photos import load_squares
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.locking.coverlock import wrap
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import fixed_size

if TYPE_CHECKING:
    from coverlock_export.fused import Verification

MESSAGE = "latency"
JPEG_QUALITY = 90


@dataclass(frozen=True)
class Subject:
    """One bundle and the lock it was exported from."""

    bundle: Bundle
    lock: LockedWatermark
    jpegs: tuple[bytes, ...]
    """Picture files as they arrive, one for each of the largest batch."""

    @property
    def name(self) -> str:
        """Watermark and hash."""
        manifest = self.bundle.manifest
        return f"{manifest.watermark}+{manifest.hash}"

    @cached_property
    def network(self) -> Verification:
        """The fused graph as it is before export."""
        from coverlock_export.fused import Verification

        decoder, image_hash = self.lock.watermark.decoder_module(), self.lock.hash
        assert decoder is not None
        assert image_hash is not None
        module = image_hash.module()
        assert module is not None
        size = fixed_size(self.lock.watermark, "a graph")
        return Verification(decoder, module, size, image_hash.input_size).eval()


def subject_of(bundle: Bundle, jpegs: tuple[bytes, ...]) -> Subject:
    """A bundle whose watermark and hash are installed here."""
    manifest = bundle.manifest
    lock = wrap(manifest.watermark, hash=manifest.hash, fpr=manifest.fpr)
    return Subject(bundle, lock, jpegs)


def shaped_subject(
    shape: str,
    watermark: str,
    photos: list[Path],
    precisions: tuple[str, ...],
    folder: Path,
    jpegs: tuple[bytes, ...],
) -> Subject:
    """A bundle with a hash of the right shape and random weights: good for timing only."""
    from coverlock_export.exporting import Request, export_bundle
    from coverlock_sdk.hashing.dinov2 import Dinov2Hash

    write_random_hash(shape, folder / shape)
    lock = wrap(watermark, hash=Dinov2Hash(shape, folder / shape))
    request = Request(lock, photos, precisions, force=True, count=4)
    bundle = export_bundle(request, folder / "bundle", lambda *_: lambda: None)
    return Subject(bundle, lock, jpegs)


def write_random_hash(shape: str, folder: Path, seed: int = 0) -> None:
    """The folder of a DINOv2 hash, as fetched and trained ones are, with random weights."""
    import torch

    from coverlock_sdk.hashing.dinov2 import VARIANTS, WEIGHTS
    from coverlock_sdk.hashing.dinov2_network import Dinov2
    from coverlock_sdk.hashing.network import HashHead
    from coverlock_sdk.models.checkpoints import write_weights

    variant = VARIANTS[shape]
    torch.manual_seed(seed)
    write_weights(folder / WEIGHTS, Dinov2(**variant.shape).state_dict())
    write_weights(folder / "head.safetensors", HashHead(2 * variant.width).state_dict())
    (folder / "head.json").write_text(json.dumps({"calibration": {"scale": 1.0, "power": 1.0}}))


def jpeg_files(photos: list[Path], count: int, side: int) -> tuple[bytes, ...]:
    """``count`` JPEG files of ``side`` x ``side`` pixels; photos repeat where there are few."""
    squares = load_squares(photos[:count], side)
    return tuple(_jpeg(squares[index % len(squares)]) for index in range(count))


def _jpeg(pixels: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="jpeg", quality=JPEG_QUALITY)
    return file.getvalue()
