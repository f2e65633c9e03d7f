"""The pictures of an audit: residuals side by side, and a forgery with its source and target."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_bench.auditing.assessment import ABSENT, COVERLOCK, NO_TIME, NONE, Assessment
from coverlock_bench.auditing.collection import Collection
from coverlock_bench.auditing.findings import NETWORKS, given
from coverlock_bench.auditing.security_tables import attack_name
from coverlock_bench.auditing.signatures import residual_patterns
from coverlock_bench.ledger import NotMeasuredError, digest
from coverlock_bench.photos import to_8_bit
from coverlock_bench.settings import Setting
from coverlock_sdk.arrays import Images

TILE = 256
GT, GT_100 = Setting("gt"), Setting("gt", (("sources", 100),))

PATTERNS, THEFT = "residual patterns", "a forgery with and without the lock"
ALWAYS = (PATTERNS, THEFT)
EDITION = 2
"""Changes when exhibits do, so that those of earlier runs are not shown."""

Picture8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Exhibit:
    """One picture of a report."""

    name: str
    group: str
    caption: str
    png: str
    """The file in base 64, so that a page can hold it."""

    def content(self) -> bytes:
        """The PNG file."""
        return base64.b64decode(self.png)


def exhibits(
    assessment: Assessment, collection: Collection
) -> tuple[list[Exhibit], dict[str, str]]:
    """Every picture that can be made, and why each of the others cannot.

    The few that a report is hard to read without are made even when time has run out.
    """
    lifting = [a for a in assessment.plan.attacks if given(str(a)) not in NETWORKS]
    makers: dict[str, Callable[[], list[Exhibit]]] = {
        PATTERNS: partial(_patterns, assessment, collection),
        THEFT: partial(_theft, assessment, collection),
        **{
            f"what {attack_name(str(setting))} lifts": partial(
                _lifted, assessment, collection, setting
            )
            for setting in dict.fromkeys([GT, GT_100, *lifting])
        },
    }
    session, key = assessment.session, _key(assessment, collection)
    shown: list[Exhibit] = []
    left_out: dict[str, str] = {}
    for name in session.steps(list(makers), f"{assessment.watermark.name}: pictures"):
        kept = session.ledger.recall(**key, exhibit=name)
        if kept is None:
            if name not in ALWAYS and not session.may_begin():
                left_out[name] = NO_TIME
                continue
            try:
                kept = _made(makers[name])
            except ABSENT as error:  # what is missing now may be here the next time
                left_out[name] = str(error)
                continue
            session.ledger.keep(kept, **key, exhibit=name)
        shown += [Exhibit(**fields) for fields in kept["shown"]]
        if kept["reason"]:
            left_out[name] = kept["reason"]
    return shown, left_out


def _made(maker: Callable[[], list[Exhibit]]) -> dict[str, Any]:
    """Pictures, or the reason why there are none and never will be."""
    try:
        return {"shown": [vars(exhibit) for exhibit in maker()], "reason": None}
    except NotMeasuredError as error:
        return {"shown": [], "reason": str(error)}


def _key(assessment: Assessment, collection: Collection) -> dict[str, Any]:
    """What pictures depend on."""
    plan = assessment.plan
    return {
        "kind": "exhibit",
        "edition": EDITION,
        "watermark": assessment.session.fingerprint(assessment.watermark),
        "lock": assessment.trials(COVERLOCK).lock,
        "pictures": digest(*collection.pictures),
        "naturals": digest(*collection.naturals),
        "pairs": plan.preset.pairs,
        "seed": plan.preset.seeds[0],
        "fpr": plan.fpr,
    }


def _patterns(assessment: Assessment, collection: Collection) -> list[Exhibit]:
    """Marked pictures, their residuals, and those averaged over their groups (appendix C)."""
    patterns = residual_patterns(assessment.watermark, collection.pictures)
    shown = []
    for group, marked in enumerate(patterns.marked):
        number, of = group + 1, f"group {group + 1}:"
        single, mean = patterns.single[group], patterns.averaged[group]
        shown += [
            _exhibit(f"marked-{number}", "patterns", f"{of} a marked picture", to_8_bit(marked)),
            _residual(f"single-{number}", "patterns", f"{of} its residual", single),
            _residual(f"averaged-{number}", "patterns", f"{of} mean residual of five", mean),
        ]
    return shown


def _lifted(assessment: Assessment, collection: Collection, setting: Setting) -> list[Exhibit]:
    """The residual an attack lifts from the unprotected watermark (figure 4a)."""
    division = assessment.division(collection, assessment.plan.preset.seeds[0])
    residual = assessment.trials(NONE).lift(setting, division)
    name = re.sub(r"[^\w.-]+", "-", f"lifted-{setting}")  # an option may be a path
    return [_residual(name, "lifted", attack_name(str(setting)), residual)]


def _theft(assessment: Assessment, collection: Collection) -> list[Exhibit]:
    """One GT@1 forgery without the lock, and the same with it."""
    division = assessment.division(collection, assessment.plan.preset.seeds[0])
    shown = [
        _exhibit("cover", "theft", "a picture before it is marked", division.sources[0]),
        _exhibit("target", "theft", "another one, which is never marked", division.targets[0]),
    ]
    for defense, words in ((NONE, "no lock"), (COVERLOCK, "CoverLock")):
        trials = assessment.trials(defense)
        marked, forged, seen = trials.example(GT, division)
        verdict = ", ".join(
            f"{'accepted' if accepted else 'rejected'} ({rule})"
            for rule, accepted in seen.accepted.items()
        )
        shown += [
            _exhibit(f"source-{defense}", "theft", f"{words}: marked source", marked),
            _exhibit(
                f"forged-{defense}",
                "theft",
                f"{words}: the target with that residual: {seen.matches} of {seen.bits} bits, "
                f"{verdict}",
                forged,
            ),
        ]
    return shown


def amplified(residual: Images) -> tuple[Picture8, float]:
    """A residual around mid-grey, amplified until it shows, and how much that was."""
    largest = float(np.quantile(np.abs(residual), 0.995))
    gain = 0.45 / largest if largest > 0 else 1.0
    return to_8_bit(0.5 + residual * gain), gain


def _residual(name: str, group: str, caption: str, residual: Images) -> Exhibit:
    """A residual to look at; the caption says how much it was amplified."""
    pixels, gain = amplified(residual)
    return _exhibit(name, group, f"{caption}, amplified {gain:.0f} times", pixels)


def _exhibit(name: str, group: str, caption: str, pixels: Picture8) -> Exhibit:
    picture = Image.fromarray(pixels)
    if max(picture.size) > TILE:
        picture = picture.resize((TILE, TILE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return Exhibit(name, group, caption, base64.b64encode(file.getvalue()).decode())
