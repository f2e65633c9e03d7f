"""Telling a hash templates: the mean logits of a few examples of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coverlock_sdk.arrays import Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError, PictureError
from coverlock_sdk.hashing.crowd import plain_name, probe_of
from coverlock_sdk.hashing.templates import Templates
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import Brightness, Crop, Distortion
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.kind_figures import kind_figures

APPEARANCES: tuple[Distortion, ...] = (Crop(1.0), Crop(0.9), Crop(0.8), Brightness(1.3))
"""How a template may be met: as it is, cropped, or with its paper brightened to white.

Each has a mean of its own. A cropped form is nearer to the mean of cropped forms, and keeps more of
its code if that one is taken off."""

FEWEST = 4
"""Examples without which a mean says little of others."""

ENOUGH = 8
"""Examples below which it is worth a warning."""


@dataclass(frozen=True)
class Told:
    """What became of one template, by its examples."""

    name: str
    examples: int
    before: Mapping[str, float]
    """How alike two of them are (``kind_figures``)."""
    after: Mapping[str, float]
    """The same when the hash was told; every example is judged by means that it is not part of."""


def learn_templates(
    image_hash: ImageHash, examples: Mapping[str, Sequence[Path]]
) -> tuple[Templates, list[Told]]:
    """What a hash is to be told of templates with these examples, and what that brings."""
    plain = plain_name(image_hash)
    if plain != image_hash.name:
        raise CoverLockError(
            f"'{image_hash.name}' was told templates already: name '{plain}', and give the "
            "examples of all templates together"
        )
    for name, paths in examples.items():
        if len(paths) < FEWEST:
            raise PictureError(
                f"the template '{name}' has {len(paths)} pictures: {FEWEST} examples are needed, "
                f"{ENOUGH} or more are better"
            )
    probe = probe_of(image_hash)
    seen = {
        name: _appearances(image_hash, paths)
        for name, paths in progress(list(examples.items()), f"templates of {image_hash.name}")
    }

    def templates(names: Sequence[str], rows: slice) -> Templates:
        means = np.concatenate([seen[name][rows].mean(axis=0) for name in names])
        return Templates(image_hash.name, means, probe)

    told = []
    for name, logits in seen.items():
        odd, even = slice(1, None, 2), slice(0, None, 2)
        halves = [
            templates([name], others).without(logits[own, 0])
            for own, others in ((even, odd), (odd, even))
        ]
        before, after = _alike([logits[:, 0]]), _alike(halves)
        told.append(Told(name, len(logits), before, after))
    return templates(list(examples), slice(None)), told


def _appearances(image_hash: ImageHash, paths: Sequence[Path]) -> Logits:
    """The logits (examples, appearances, 256) of the examples of one template."""
    rng = np.random.default_rng(0)
    rows = []
    for path in paths:
        picture = read(path).to_bytes()
        rows.append(picture_logits(image_hash, [change(picture, rng) for change in APPEARANCES]))
    return np.stack(rows)


def _alike(sets: Sequence[Logits]) -> dict[str, float]:
    """How alike two different pictures of one set are."""
    return kind_figures({"template": [logits > 0 for logits in sets]})["template"]
