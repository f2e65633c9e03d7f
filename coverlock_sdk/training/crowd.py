"""Making the crowd of a hash: codes of training photos, and of drawn pictures of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.crowd import Crowd, plain_name, probe_of
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress
from coverlock_sdk.training.kinds.collection import draw_crowd

PHOTOS = "photos"
PHOTO_COUNT = 1024
TEMPLATES = 16
"""Templates of each kind."""

TOGETHER = 32


def make_crowd(image_hash: ImageHash, photos: Sequence[Path], pictures: Path) -> Crowd:
    """The codes of ``photos`` and of drawn pictures, which are kept in the folder ``pictures``."""
    if plain_name(image_hash) != image_hash.name:
        raise CoverLockError(
            f"'{image_hash.name}' was told templates: it has the crowd of "
            f"'{plain_name(image_hash)}' and needs none of its own"
        )
    some = photos[:: max(1, len(photos) // PHOTO_COUNT)][:PHOTO_COUNT]
    members = {PHOTOS: list(some), **draw_crowd(pictures, TEMPLATES, photos)}
    files = [path for paths in members.values() for path in paths]
    starts = range(0, len(files), TOGETHER)
    logits = [
        picture_logits(image_hash, files[start : start + TOGETHER])
        for start in progress(starts, f"codes of {image_hash.name}")
    ]
    kind = np.repeat(np.arange(len(members), dtype=np.uint8), [len(m) for m in members.values()])
    codes = (np.concatenate(logits) > 0).astype(np.uint8)
    return Crowd.of(codes, kind, tuple(members), probe_of(image_hash))
