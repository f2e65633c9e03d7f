"""Collections of drawn pictures as files, for training and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coverlock_sdk.progress import progress
from coverlock_training.kinds.catalogue import KINDS, Kind, photos_from
from coverlock_training.kinds.fonts import Split

TOGETHER = 8
"""Training pictures of one template."""


def draw_templates(folder: Path, templates: int, photos: Sequence[Path]) -> list[list[Path]]:
    """Training pictures: of every kind ``templates`` templates, ``TOGETHER`` pictures of each.

    Pictures of one template share no photo.
    """
    return [
        [
            _drawn(folder, "training", kind, template, content, photos[content::TOGETHER])
            for content in range(TOGETHER)
        ]
        for kind in progress(list(KINDS.values()), "drawing pictures")
        for template in range(templates)
    ]


def draw_sets(
    folder: Path, count: int, photos: Sequence[Path], templates: int = 2
) -> dict[str, list[list[Path]]]:
    """For every kind, sets of ``count`` evaluation pictures that are to be told apart.

    A kind that shares one template has a set for each of ``templates``; any other has one set,
    every picture of which has a template of its own. Pictures of a set share no photo.
    """
    sets: dict[str, list[list[Path]]] = {}
    for kind in progress(list(KINDS.values()), "drawing pictures"):
        if kind.one_template:
            seeds = [[(t, content) for content in range(count)] for t in range(templates)]
        else:
            seeds = [[(t, t) for t in range(count)]]
        sets[kind.name] = [
            [_drawn(folder, "evaluation", kind, t, c, photos[c::count]) for t, c in members]
            for members in seeds
        ]
    return sets


def _drawn(
    folder: Path, split: Split, kind: Kind, template: int, content: int, photos: Sequence[Path]
) -> Path:
    """The file of one picture, drawn unless it is there."""
    name = kind.name.replace(" ", "-")
    file = folder / f"{split}-{name}-{template:04}-{content:04}.png"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        kind.draw(split, template, content, photos_from(photos)).save(file, compress_level=1)
    return file
