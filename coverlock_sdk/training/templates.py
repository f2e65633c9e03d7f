"""Telling a hash templates: the mean logits of a few examples of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coverlock_sdk.arrays import Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError, PictureError
from coverlock_sdk.hashing.crowd import probe_of
from coverlock_sdk.hashing.templates import TemplateHash, Templates
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import Brightness, Crop, Distortion
from coverlock_sdk.images.folders import pictures_in
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress

APPEARANCES: tuple[Distortion | None, ...] = (None, Crop(0.9), Crop(0.8), Brightness(1.3))
"""How a template may be met: as it is, cropped, or with its paper brightened to white.

Each has a mean of its own. A cropped form is nearer to the mean of cropped forms, and keeps more of
its code if that one is taken off."""

FEWEST = 4
"""Examples without which a mean says little of others."""

ENOUGH = 8
"""Examples below which it is worth a warning."""


@dataclass(frozen=True)
class Told:
    """What became of one template."""

    name: str
    examples: int
    before: float
    """The share of bits in which two of the examples agree."""
    after: float
    """The same when the hash was told; every example is judged by means that it is not part of."""


def examples_in(folder: Path) -> dict[str, list[Path]]:
    """Pictures by template: each folder within ``folder`` is one, or else it is one itself."""
    within = sorted(path for path in folder.iterdir() if path.is_dir())
    found = {path.name: pictures_in(path, deep=False) for path in within}
    templates = {name: paths for name, paths in found.items() if paths}
    if templates:
        return templates
    return {folder.resolve().name: pictures_in(folder, deep=False)}


def learn_templates(
    image_hash: ImageHash, examples: Mapping[str, Sequence[Path]]
) -> tuple[Templates, list[Told]]:
    """What a hash is to be told of templates with these examples, and what that brings."""
    _require_plain(image_hash)
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
        means = np.concatenate([seen[name][:, rows].mean(axis=1) for name in names])
        return Templates(image_hash.name, tuple(names), means, probe)

    told = []
    for name, logits in seen.items():
        odd, even = slice(1, None, 2), slice(0, None, 2)
        halves = [
            templates([name], others).without(logits[0, own])
            for own, others in ((even, odd), (odd, even))
        ]
        after = float(np.mean([_agreement(half) for half in halves]))
        told.append(Told(name, logits.shape[1], _agreement(logits[0]), after))
    return templates(list(examples), slice(None)), told


def _appearances(image_hash: ImageHash, paths: Sequence[Path]) -> Logits:
    """The logits (appearances, examples, 256) of the examples of one template."""
    pictures = [read(path).to_bytes() for path in paths]
    rng = np.random.default_rng(0)
    return np.stack(
        [
            picture_logits(image_hash, [change(p, rng) if change else p for p in pictures])
            for change in APPEARANCES
        ]
    )


def _agreement(logits: Logits) -> float:
    """The share of bits in which two different pictures agree, on average."""
    signs = np.where(logits > 0, 1.0, -1.0)
    count = len(signs)
    products = (signs @ signs.T).sum() - signs.size
    return float(0.5 + 0.5 * products / (count * (count - 1) * signs.shape[1]))


def _require_plain(image_hash: ImageHash) -> None:
    """Refuse a hash that was told templates already: a file holds all that it should know."""
    if isinstance(image_hash, TemplateHash):
        raise CoverLockError(
            f"'{image_hash.name}' was told templates already: name '{image_hash.plain.name}', and "
            "give the examples of all templates together"
        )
