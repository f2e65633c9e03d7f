"""The crowd of a hash: codes of a few thousand pictures of every kind, which ship with it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.hashing.shipped import shipped_file
from coverlock_sdk.images.resampling import resample

FILE = "crowd.safetensors"
"""Its name in the folder of a hash; one that ships has the name of the hash before it."""

PROBE_TOLERANCE = 16
"""Bits of 256 that other processors, or a graph, may round otherwise."""

TOLD = "~"
"""In the name of a hash, what stands before a digest of the templates that it was told."""

KINDS = "kinds"
"""Under which a file tells the names of its kinds."""


@dataclass(frozen=True)
class Crowd:
    """Codes of reference pictures, and the kind of each."""

    packed: npt.NDArray[np.uint8]
    """(N, 32): the 256 bits of each code."""
    kind: npt.NDArray[np.uint8]
    """(N,): which of ``kinds`` each picture is."""
    kinds: tuple[str, ...]
    probe: npt.NDArray[np.uint8]
    """(32,): the code of a picture that tells hashes apart: codes of other weights mean nothing."""

    @classmethod
    def of(
        cls,
        codes: Bits,
        kind: npt.NDArray[np.uint8],
        kinds: tuple[str, ...],
        probe: npt.NDArray[np.uint8],
    ) -> Crowd:
        """The crowd of ``codes`` (N, 256)."""
        return cls(np.packbits(codes, axis=1), kind, kinds, probe)

    @classmethod
    def empty(cls) -> Crowd:
        """The crowd of a hash that has none."""
        none = np.empty(0, np.uint8)
        return cls(np.empty((0, 32), np.uint8), none, (), np.zeros(32, np.uint8))

    def __len__(self) -> int:
        return len(self.packed)

    def matches(self, hash_logits: Logits) -> npt.NDArray[np.int64]:
        """In how many of its 256 bits each code equals that of a picture (256,)."""
        different = self.packed.view(np.uint64) ^ np.packbits(hash_logits > 0).view(np.uint64)
        return hash_logits.size - np.bitwise_count(different).sum(axis=1, dtype=np.int64)

    def save(self, path: Path) -> None:
        """Write the crowd to a file."""
        from safetensors.numpy import save_file

        arrays = {"codes": self.packed, "kind": self.kind, "probe": self.probe}
        save_file(arrays, path, metadata={KINDS: "\n".join(self.kinds)})

    @classmethod
    def load(cls, path: Path) -> Crowd:
        """The crowd in a file."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                kinds = tuple((file.metadata() or {})[KINDS].split("\n"))
                codes, kind, probe = map(file.get_tensor, ("codes", "kind", "probe"))
                return cls(codes, kind, kinds, probe)
        except (SafetensorError, KeyError) as error:
            raise CorruptModelError(
                f"{path} is not a crowd of codes ({error}): make it with 'coverlock train crowd'"
            ) from error


def probe_of(image_hash: ImageHash) -> npt.NDArray[np.uint8]:
    """The code (32,) that a hash gives to blotches of colour."""
    blotches = np.random.RandomState(0).uniform(size=(1, 3, 8, 8)).astype(np.float32)
    return np.packbits(image_hash.logits(resample(blotches, image_hash.input_size))[0] > 0)


def identity_of(image_hash: ImageHash) -> npt.NDArray[np.uint8]:
    """The probe (32,) of a hash, and another for each set of templates that it was told."""
    templates = image_hash.name.removeprefix(plain_name(image_hash))
    told = hashlib.sha256(templates.encode()).digest() if templates else bytes(32)
    return probe_of(image_hash) ^ np.frombuffer(told, np.uint8)


def plain_name(image_hash: ImageHash) -> str:
    """The name of a hash without the templates that it was told."""
    return re.sub(f"{TOLD}[0-9a-f]{{8}}$", "", image_hash.name)


def crowd_of(image_hash: ImageHash) -> Crowd | None:
    """The crowd of a hash: in its folder, or with the package.

    None where there is none, or where it was made with other weights. That of a hash which was told
    templates is the plain one's: pictures of other kinds have the same codes to both.
    """
    name = plain_name(image_hash)
    path = image_hash.folder / FILE if image_hash.folder else shipped_file(f"{name}-{FILE}")
    crowd = _loaded(path)
    if crowd is None:
        return None
    return crowd if same_weights(crowd.probe, probe_of(image_hash)) else None


def same_weights(probe: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> bool:
    """Whether two probes (32,) are of one hash."""
    return int(np.bitwise_count(probe ^ other).sum()) <= PROBE_TOLERANCE


@lru_cache(maxsize=4)
def _loaded(path: Path) -> Crowd | None:
    return Crowd.load(path) if path.exists() else None
