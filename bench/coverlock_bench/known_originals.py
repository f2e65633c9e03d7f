"""Averaging by someone who knows originals: forgery, and removal (arXiv 2604.03693).

The attacker has released pictures of one message with their originals, and averages what marking
added. Added to other pictures the average forges; subtracted from marked ones it removes. Where
residuals differ from picture to picture, as they do behind a lock, an average is worth little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_bench.auditing.security_tables import defense_name
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import Session, digest
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_bench.settings import Setting
from coverlock_bench.tables import RATE, Columns, Row, Table, below
from coverlock_bench.trial import DefendedWatermark, forge
from coverlock_sdk import Watermark, codeword
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import MissingModelError, UnknownNameError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.coverlock import DEFAULT_RULE

DEFENSES = ("none", "random-keys", "mhdw", "convnext", "coverlock", "coverlock-keyed")
STRENGTHS = (1, 2)
"""How often the residual of a picture is subtracted: the average is scaled to the size of one."""


def known_originals(
    watermark: Watermark,
    defense: str,
    photos: Sequence[Picture8],
    count: int,
    fpr: float,
    run: Session,
) -> dict[str, Any]:
    """``count`` photos are averaged over, ``count`` cleaned, and ``count`` forged."""
    defended = DefendedWatermark(watermark, Setting.parse(defense), fpr)
    identifier = "known originals"
    bits = defended.protected.bits
    message = identifier if defended.keyed else codeword(identifier, None, bits)
    known, victims, targets = (photos[i * count : (i + 1) * count] for i in range(3))
    marked = [
        defended.mark(photo, message).picture
        for photo in run.steps([*known, *victims], f"{watermark.name}, {defense}")
    ]
    pairs = zip(marked[:count], known, strict=True)
    residuals = np.stack([to_float(seen) - to_float(original) for seen, original in pairs])
    pattern = residuals.mean(axis=0)
    size = float(np.mean([np.linalg.norm(residual) for residual in residuals]))
    scaled: Images = pattern * np.float32(size / np.linalg.norm(pattern))

    def accepted(pictures: Sequence[Picture8]) -> dict[str, Any]:
        seen = defended.judge(pictures, message)
        return rate(sum(outcome.accepted[DEFAULT_RULE] for outcome in seen), len(seen))

    released = marked[count:]
    figures: dict[str, Any] = {"genuine": accepted(released)}
    for strength in STRENGTHS:
        cleaned = [to_8_bit(to_float(picture) - strength * scaled) for picture in released]
        figures[f"cleaned {strength}"] = accepted(cleaned) | {"psnr": _psnr(victims, cleaned)}
    averaged = [to_8_bit(to_float(target) + pattern) for target in targets]
    figures["averaged"] = accepted(averaged) | {"psnr": _psnr(targets, averaged)}
    single = [
        forge(GroundTruthResidual(), [picture], [original], [target])[0]
        for picture, original, target in zip(marked, known, targets, strict=False)
    ]
    figures["single"] = accepted(single) | {"psnr": _psnr(targets, single)}
    return figures


def kept(
    watermark: Watermark,
    defense: str,
    photos: Sequence[Picture8],
    count: int,
    fpr: float,
    run: Session,
) -> dict[str, Any]:
    """``known_originals``, measured once; a defence whose model is not here says so."""
    asked = {"study": "known originals", "watermark": run.fingerprint(watermark), "fpr": fpr}
    asked |= {"defense": defense, "pictures": digest(*photos[: 3 * count]), "count": count}
    row: dict[str, Any] | None = run.ledger.recall(**asked)
    if row is None:
        try:
            row = known_originals(watermark, defense, photos, count, fpr, run)
        except (MissingModelError, UnknownNameError) as error:
            return {"not_measured": str(error)}
        run.ledger.keep(row, **asked)
    return row


def _psnr(originals: Sequence[Picture8], changed: Sequence[Picture8]) -> float:
    pairs = zip(originals, changed, strict=True)
    return float(np.mean([read(one).psnr(read(other)) for one, other in pairs]))


def _rows(figures: Any) -> list[Row]:
    return [
        {"watermark": watermark, "defense": defense_name(defense), **row}
        for watermark, defenses in figures.items()
        for defense, row in defenses.items()
        if "not_measured" not in row
    ]


COLUMNS: Columns = (
    ("watermark", "{watermark}"),
    ("defence", "{defense}"),
    ("genuine, accepted", below("genuine", RATE)),
    ("after removal", below("cleaned 1", RATE + ", {psnr:.1f} dB")),
    ("after removal, twice as strong", below("cleaned 2", RATE + ", {psnr:.1f} dB")),
    ("forged from the average", below("averaged", RATE)),
    ("forged from one picture", below("single", RATE)),
)
KNOWN_ORIGINALS = Table("Averages over known originals", _rows, COLUMNS)
