"""Which photos of a collection training never sees, the same for every hash and every run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.folders import pictures_in

HELD_OUT = 0.1
"""The share that training of the shipped hashes leaves out."""


def split(folder: Path, held_out: float) -> tuple[list[Path], list[Path]]:
    """The pictures of ``folder`` for training, and the share of them held out for validation.

    A picture's name alone decides, so its side does not change when the collection does.
    """
    paths = pictures_in(folder, deep=False)
    training: list[Path] = []
    validation: list[Path] = []
    for path in paths:
        (validation if is_held_out(path, held_out) else training).append(path)
    if len(training) < 2 or not validation:
        raise PictureError(f"{folder} holds too few pictures to train on ({len(paths)})")
    return training, validation


def is_held_out(path: Path, share: float = HELD_OUT) -> bool:
    """Whether a picture belongs to the ``share`` that nothing is fitted on; its name decides."""
    draw = int.from_bytes(hashlib.sha256(path.stem.encode()).digest()[:4], "big") / 2**32
    return draw < share
