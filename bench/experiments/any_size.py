"""Watermarks that take pictures of any size: does the size change how forgeable they are?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coverlock_bench.auditing.assessment import SIDES, Assessment, Plan
from coverlock_bench.auditing.collection import Collection, collect
from coverlock_bench.auditing.presets import Preset
from coverlock_bench.ledger import Session
from coverlock_bench.rt import transferability_curve
from coverlock_bench.settings import named_watermark
from coverlock_sdk import Watermark

FEWEST = 4
"""Pictures below which a size is left out: two to steal from, two to forge."""
RT_MESSAGES = 2


def any_size(
    watermarks: Sequence[str],
    folders: Sequence[Path],
    attacks: Sequence[str],
    sides: Sequence[int],
    pairs: int,
    fpr: float,
    session: Session,
) -> dict[str, Any]:
    """What is read, accepted and forged at each size, by watermark and folder of photos."""
    figures: dict[str, Any] = {}
    collections = [collect(folder, 2 * pairs) for folder in folders]
    for name in watermarks:
        watermark = named_watermark(name)
        figures[name] = {}
        for collection in collections:
            at = (at_side(collection, side, 2 * pairs) for side in sides)
            figures[name][collection.name] = {
                str(sized.side): measured(watermark, sized, attacks, fpr, session)
                for sized in at
                if len(sized.pictures) >= FEWEST
            }
    return figures


def at_side(collection: Collection, side: int, limit: int) -> Collection:
    """Middle squares of the photos that need not be enlarged for it."""
    return replace(collection, pictures=collection.squares(side, limit), side=side)


def measured(
    watermark: Watermark,
    collection: Collection,
    attacks: Sequence[str],
    fpr: float,
    session: Session,
) -> dict[str, Any]:
    """One watermark at one size. Large pictures take long, so they see JPEG alone."""
    pictures, side = collection.pictures, collection.side
    pairs = len(pictures) // 2
    preset = Preset(
        name="any-size",
        pairs=pairs,
        attacks=dict.fromkeys(attacks, pairs),
        rt_sources=(1,),
        rt_targets=pairs,
        rt_messages=RT_MESSAGES,
        locked_sources=pairs,
        seeds=(0,),
        variants=(),
    )
    distortions = () if side == SIDES[0] else ("jpeg",)
    plan = Plan.of(preset, attacks, ("none", "coverlock"), fpr, distortions)
    curve = transferability_curve(
        watermark,
        pictures,
        preset.rt_sources,
        targets=pairs,
        messages=RT_MESSAGES,
        seed=0,
        session=session,
        side=side,
    )
    return {
        "pictures": len(pictures),
        "bits": watermark.bits,
        "rt": curve.to_dict(),
        "security": Assessment(watermark, plan, session).security(collection),
    }
