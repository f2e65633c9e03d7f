"""The weight files behind a hash, for reports and result files."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Iterable
from pathlib import Path

from coverlock_bench.settings import Setting
from coverlock_sdk import CoverLock, ImageHash, load_hash

HEAD = "head.safetensors"
"""A head in the folder of a hash goes before one that ships."""


def weight_files(image_hash: ImageHash) -> list[Path]:
    """The files in the folder of the hash, and those that ship beside its module, by its name."""
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


def weights_of_defenses(defenses: Iterable[str]) -> dict[str, dict[str, str]]:
    """The same for the hashes of some defences, by the name of the hash."""
    made = [Setting.parse(text).defense() for text in defenses]
    hashes = [load_hash(each.hash) for each in made if isinstance(each, CoverLock)]
    return {image_hash.name: weights_of(image_hash) for image_hash in hashes}


def size_of(image_hash: ImageHash) -> dict[str, int | None]:
    """Parameters and bytes of the weight files; None where the hash has none that are known."""
    from safetensors import safe_open

    files = weight_files(image_hash)
    if not files:
        return {"parameters": None, "bytes": None}
    parameters = 0
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            slices = map(tensors.get_slice, tensors.keys())
            parameters += sum(math.prod(tensor.get_shape()) for tensor in slices)
    return {"parameters": parameters, "bytes": sum(file.stat().st_size for file in files)}
