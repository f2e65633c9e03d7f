"""What the head of ``duo`` can be had for: fewer bit errors on photos, or fewer pairs that pass.

The head is computed, and one number decides how much more its steadiest directions count than
others. Everything else stays as it is in the recipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from coverlock_sdk.training.hashes.duo_recipe import DuoLessons, DuoRecipe

PREFERENCES = (0.0, 0.3, 0.6, 0.8, 1.0, 1.4)
"""The recipe has 0.6."""


def duo_heads(photos: Path, run: Path, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """By preference, the figures on photos that training holds out and on drawn pictures."""
    recipe = DuoRecipe(seed=seed)
    lessons = DuoLessons.prepare(photos, run, recipe)
    for preference in PREFERENCES:
        lessons.compute(replace(recipe, photos=replace(recipe.photos, preference=preference)))
        yield f"{preference:g}", lessons.curriculum.judge(lessons.network)
