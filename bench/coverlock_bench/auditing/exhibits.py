"""The pictures of an audit: a forgery with its source and target, and residuals side by side."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from coverlock_bench.auditing.assessment import ABSENT, Assessment
from coverlock_bench.auditing.collection import Collection
from coverlock_bench.auditing.signatures import residual_patterns
from coverlock_bench.auditing.verdict import defense_name
from coverlock_bench.ledger import digest
from coverlock_bench.photos import Picture8, to_8_bit
from coverlock_bench.settings import Setting
from coverlock_bench.trial import Outcome
from coverlock_sdk.arrays import Images

TILE = 256
THEFT, COPY = Setting("gt"), Setting("re-embedding")


@dataclass(frozen=True)
class Exhibit:
    """One picture of a report."""

    name: str
    group: str
    caption: str
    png: str
    """The file in base 64, so that a page can hold it."""
    tone: str = ""
    """"good" or "bad" if the picture shows a verdict."""

    def content(self) -> bytes:
        """The PNG file."""
        return base64.b64decode(self.png)


def exhibits(
    assessment: Assessment, collection: Collection
) -> tuple[list[Exhibit], dict[str, str]]:
    """Every picture that can be made, and why the others cannot."""
    makers: dict[str, Callable[[], list[Exhibit]]] = {
        "a forgery with and without the lock": partial(_theft, assessment, collection),
        "residual patterns": partial(_patterns, assessment, collection),
    }
    session = assessment.session
    shown: list[Exhibit] = []
    left_out: dict[str, str] = {}
    for name in session.steps(list(makers), f"{assessment.watermark.name}: pictures"):
        try:
            key = {**_key(assessment, collection), "exhibit": name}
            kept = session.once(partial(_made, makers[name]), **key)
        except ABSENT as error:  # it may be there the next time
            left_out[name] = str(error)
        else:
            shown += [Exhibit(**fields) for fields in kept]
    return shown, left_out


def _made(maker: Callable[[], list[Exhibit]]) -> list[dict[str, Any]]:
    return [vars(exhibit) for exhibit in maker()]


def _key(assessment: Assessment, collection: Collection) -> dict[str, Any]:
    """What pictures depend on."""
    bare, lock = assessment.compared
    return {
        "kind": "exhibit",
        "watermark": assessment.session.fingerprint(assessment.watermark),
        "bare": assessment.trials(bare).lock,
        "lock": assessment.trials(lock).lock,
        "pictures": digest(*collection.pictures),
        "pairs": assessment.plan.preset.pairs,
    }


def _theft(assessment: Assessment, collection: Collection) -> list[Exhibit]:
    """One forgery without the lock and with it: by moving the residual, or by copying the bits.

    The bits are copied if the residual cannot be moved and the watermark's own encoder can do it.
    """
    (bare, lock), division = assessment.compared, assessment.division(collection)
    theft, how = THEFT, "The same with the first picture's residual"
    marked, forged, seen = assessment.trials(bare).example(THEFT, division)
    if not seen.accepted:
        copied = assessment.trials(bare).example(COPY, division)
        if copied[2].accepted:
            theft, how = COPY, "The same with the first picture's bits, copied by your encoder"
            marked, forged, seen = copied
    _, locked, unseen = assessment.trials(lock).example(theft, division)
    again = f"Again, {defense_name(str(lock))}"
    return [
        _exhibit("cover", "original", "A picture before it is marked", division.sources[0]),
        _exhibit("source", "theft", "A marked picture", marked),
        _exhibit("target", "theft", "Another picture, never marked", division.targets[0]),
        _judged("forged", how, forged, seen),
        _judged("forged-locked", again, locked, unseen),
    ]


def _judged(name: str, caption: str, picture: Picture8, seen: Outcome) -> Exhibit:
    """A forgery with its verdict."""
    chance = "no better than chance, " if seen.p_value > 0.01 else ""
    verdict = "accepted" if seen.accepted else f"rejected ({chance}p = {seen.p_value:.1g})"
    tone = "bad" if seen.accepted else "good"
    return _exhibit(name, "theft", f"{caption}: {verdict}", picture, tone)


def _patterns(assessment: Assessment, collection: Collection) -> list[Exhibit]:
    """Marked pictures, their residuals, and the mean residuals of their groups (appendix C)."""
    patterns = residual_patterns(assessment.watermark, collection.pictures)
    shown = []
    for group, marked in enumerate(patterns.marked):
        number, of = group + 1, f"Group {group + 1}:"
        single, mean = patterns.single[group], patterns.averaged[group]
        shown += [
            _exhibit(f"marked-{number}", "patterns", f"{of} a marked picture", to_8_bit(marked)),
            _residual(f"single-{number}", f"{of} its residual", single),
            _residual(f"averaged-{number}", f"{of} mean residual of five", mean),
        ]
    return shown


def _residual(name: str, caption: str, residual: Images) -> Exhibit:
    """A residual around mid-grey, amplified until it is visible; the caption says how much."""
    largest = float(np.quantile(np.abs(residual), 0.995))
    gain = 0.45 / largest if largest > 0 else 1.0
    caption = f"{caption}, amplified {gain:.0f} times"
    return _exhibit(name, "patterns", caption, to_8_bit(0.5 + residual * gain))


def _exhibit(name: str, group: str, caption: str, pixels: Picture8, tone: str = "") -> Exhibit:
    picture = Image.fromarray(pixels)
    if max(picture.size) > TILE:
        picture = picture.resize((TILE, TILE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return Exhibit(name, group, caption, base64.b64encode(file.getvalue()).decode(), tone)
