"""The weight files behind a hash, for reports and result files."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

from coverlock_sdk import ImageHash

HEAD = "head.safetensors"
"""A head in the folder of a hash takes precedence over the one that ships."""


def weight_files(image_hash: ImageHash) -> list[Path]:
    """The files in the hash's folder, and those with its name that ship beside its module."""
    own = sorted(image_hash.folder.glob("*.safetensors")) if image_hash.folder else []
    beside = Path(inspect.getfile(type(image_hash))).parent / "weights"
    shipped = sorted(beside.glob(f"{image_hash.name}*.safetensors"))
    return own if HEAD in {file.name for file in own} else [*own, *shipped]


def weights_of(image_hash: ImageHash) -> dict[str, str]:
    """The SHA-256 of each weight file."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in weight_files(image_hash)
    }


def bytes_of(image_hash: ImageHash) -> int | None:
    """The total size of the weight files; None if no files are known."""
    return sum(file.stat().st_size for file in weight_files(image_hash)) or None
