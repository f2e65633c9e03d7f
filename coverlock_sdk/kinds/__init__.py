"""Drawn pictures of every kind a watermark may meet besides photos.

A kind is drawn by *designs*. Those of training and of evaluation are different layouts with
different font files, words and photos; some share helpers, such as drawn heads or QR modules. A
design takes a template seed, which fixes its layout, and a content seed; pictures of one template
are the hardest to tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from coverlock_sdk.kinds import (
    cards,
    charts,
    codes,
    documents,
    drawings,
    framing,
    greys,
    people,
    products,
    screens,
)
from coverlock_sdk.kinds.desk import Desk, PhotoSource
from coverlock_sdk.kinds.fonts import Split

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

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "text of one layout",
            (documents.columns_page, documents.letter),
            (documents.plain_page,),
            one_template=True,
        ),
        Kind(
            "text of many layouts",
            (documents.columns_page, documents.letter, documents.table_page),
            (documents.report_page,),
        ),
        Kind("forms", (documents.form,), (documents.boxed_form,), one_template=True),
        Kind("ID cards", (cards.id_card,), (cards.licence,), one_template=True),
        Kind("receipts", (cards.receipt,), (cards.till_slip,), one_template=True),
        Kind("slides", (documents.slide,), (documents.keynote,)),
        Kind("dashboards of one app", (screens.dashboard,), (screens.control_room,), True),
        Kind("chats", (screens.chat,), (screens.group_chat,)),
        Kind(
            "screenshots",
            (screens.web_page, screens.editor, screens.settings_list, screens.spreadsheet),
            (screens.news_app, screens.file_manager),
        ),
        Kind("bar charts", (charts.bar_chart, charts.pie_chart), (charts.plotted_bars,)),
        Kind("line charts", (charts.line_chart, charts.scatter_chart), (charts.plotted_lines,)),
        Kind("maps", (charts.street_map,), (charts.contour_map,)),
        Kind("QR codes", (codes.qr_code, codes.qr_poster), (codes.held_out_qr,), True),
        Kind("bar codes", (codes.bar_code,), (codes.parcel_label,), one_template=True),
        Kind("line art", (drawings.line_art,), (drawings.comic_scene,)),
        Kind("logos", (drawings.logo,), (drawings.wordmark,)),
        Kind("small products", (products.small_product,), (products.small_pack,)),
        Kind("large products", (products.large_product,), (products.large_pack,)),
        Kind("portraits", (people.portrait,), (people.profile_badge,)),
        Kind(
            "scans", (greys.chest_scan, greys.slice_scan), (greys.ultrasound, greys.bone_scan), True
        ),
        Kind("night", (greys.night_sky, greys.dim_room), (greys.night_city,)),
        Kind("fog", (greys.fog,), (greys.haze,)),
        Kind("memes", (framing.meme,), (framing.captioned,)),
        Kind(
            "frames and letterboxes",
            (framing.framed, framing.letterboxed),
            (framing.polaroid, framing.blurred_sides),
        ),
    )
}
"""Every kind by name, in the order of reports."""


def photos_from(paths: Sequence[Path]) -> PhotoSource:
    """Photos drawn from files, for the kinds that show some."""

    def draw(rng: np.random.Generator) -> Image.Image:
        with Image.open(paths[int(rng.integers(len(paths)))]) as file:
            return file.convert("RGB")

    return draw
