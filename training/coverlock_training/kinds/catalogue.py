"""The kinds of pictures that a code tells apart least well, each with the designs that draw it.

Of photos of different things any two codes agree in half of their bits. Forms, cards, receipts and
scans of one template agree in more, and so do pages, screens and faces drawn alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from coverlock_sdk.images.codecs import open_image
from coverlock_training.kinds import cards, codes, documents, greys, people, screens
from coverlock_training.kinds.desk import Desk, PhotoSource
from coverlock_training.kinds.fonts import Split

Design = Callable[[Desk], Image.Image]

_SALT: dict[Split, int] = {"training": 0, "evaluation": 2}


@dataclass(frozen=True)
class Kind:
    """Pictures of one kind: how they are drawn to train on, and how to be judged by."""

    name: str
    training: tuple[Design, ...]
    evaluation: Design
    one_template: bool = False
    """Whether evaluation compares pictures of one template only."""

    def draw(self, split: Split, template: int, content: int, photo: PhotoSource) -> Image.Image:
        """Picture ``content`` of ``template``, the same for the same arguments."""
        designs = (self.evaluation,) if split == "evaluation" else self.training
        seeds = [_SALT[split], *self.name.encode(), template]
        desk = Desk.open(split, seeds, content, photo)
        return designs[template % len(designs)](desk).convert("RGB")


_ALL = (
    Kind(
        "text of one layout",
        (documents.columns_page, documents.letter),
        documents.plain_page,
        one_template=True,
    ),
    Kind("forms", (documents.form,), documents.boxed_form, one_template=True),
    Kind("ID cards", (cards.id_card,), cards.licence, one_template=True),
    Kind("receipts", (cards.receipt,), cards.till_slip, one_template=True),
    Kind("slides", (documents.slide,), documents.keynote),
    Kind("dashboards of one app", (screens.dashboard,), screens.control_room, one_template=True),
    Kind("chats", (screens.chat,), screens.group_chat),
    Kind("bar codes", (codes.bar_code,), codes.parcel_label, one_template=True),
    Kind("portraits", (people.portrait,), people.profile_badge),
    Kind("scans", (greys.chest_scan, greys.slice_scan), greys.ultrasound, one_template=True),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
"""Every kind by name, in the order of reports."""


def photos_from(paths: Sequence[Path]) -> PhotoSource:
    """Photos drawn from files, for the kinds that show some."""

    def draw(rng: np.random.Generator) -> Image.Image:
        with open_image(paths[int(rng.integers(len(paths)))]) as file:
            return file.convert("RGB")

    return draw
