"""A kind of drawn picture: the designs that draw it, and the photos that some of them show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from coverlock_sdk.images.codecs import open_image
from coverlock_sdk.training.kinds.desk import Desk, PhotoSource
from coverlock_sdk.training.kinds.fonts import Split

Design = Callable[[Desk], Image.Image]


@dataclass(frozen=True)
class Kind:
    """Pictures of one kind: how they are drawn to train on, and how to be judged by."""

    name: str
    training: tuple[Design, ...]
    evaluation: tuple[Design, ...]
    one_template: bool = False
    """Whether evaluation compares pictures of one template only."""

    def draw(self, split: Split, template: int, content: int, photo: PhotoSource) -> Image.Image:
        """Picture ``content`` of ``template``, the same for the same arguments."""
        designs = self.evaluation if split == "evaluation" else self.training
        seeds = [_SALT[split], *self.name.encode(), template]
        desk = Desk.open(split, seeds, content, photo)
        return designs[template % len(designs)](desk).convert("RGB")


_SALT: dict[Split, int] = {"training": 0, "validation": 1, "evaluation": 2}


def photos_from(paths: Sequence[Path]) -> PhotoSource:
    """Photos drawn from files, for the kinds that show some."""

    def draw(rng: np.random.Generator) -> Image.Image:
        with open_image(paths[int(rng.integers(len(paths)))]) as file:
            return file.convert("RGB")

    return draw
