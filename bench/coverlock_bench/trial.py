"""Marks, distorts, forges and judges pictures, for every measurement.

Pictures are 8-bit RGB (H, W, 3) throughout, as saved; networks and attacks see floats.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk import (
    LockedWatermark,
    NetworkAttack,
    OracleAttack,
    ProtectedWatermark,
    Verdict,
    Watermark,
)
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.contract import AnyAttack
from coverlock_sdk.errors import PluginError, WeakMarkWarning
from coverlock_sdk.frames import WHOLE
from coverlock_sdk.images.distortions import Distortion

CLEAN = "clean"
TRANSPLANT = GroundTruthResidual(sources=1)
"""The strongest theft from one picture: its true residual, pasted elsewhere."""


class Mark(NamedTuple):
    """A marked picture, and what its payload was bound to, if that is known."""

    picture: Picture8
    code: Bits | None = None
    salt: int = 0


@dataclass(frozen=True)
class Outcome:
    """The verdict on one picture, with its errors."""

    accepted: bool
    matches: int
    bits: int
    p_value: float
    payload_errors: int | None = None
    """Bits that the decoder read wrong, before the lock is undone."""
    hash_errors: int | None = None
    """Bits in which the picture's code differs from the embedded code; None without a lock.

    The code is taken in the frame where the picture was accepted, or from the whole picture.
    """


def mark(protected: ProtectedWatermark, picture: Picture8, message: str | Bits) -> Mark:
    """Mark a picture; measurements count weak marks, so they do not warn about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)
        if isinstance(protected, LockedWatermark):
            marked = protected.mark(picture, message)
            return Mark(marked.picture, marked.code, marked.salt)
        return Mark(protected.embed([picture], message)[0])


def judge(
    protected: ProtectedWatermark,
    pictures: Sequence[Picture8],
    message: str | Bits,
    source: Mark | None = None,
) -> list[Outcome]:
    """Verdicts on ``pictures``, from the same method that vendors call.

    With ``source``, the mark that they were made from, also counts errors of payload and hash.
    """
    verdicts: list[Verdict] = protected.verify(list(pictures), message)
    outcomes = [Outcome(bool(v), v.matches, v.bits, v.p_value) for v in verdicts]
    if source is None or source.code is None or not isinstance(protected, LockedWatermark):
        return outcomes
    lock, terms = protected.lock, protected.lock.terms(message, protected.lock.keys[0])
    split = []
    for outcome, verdict, decoded, described in zip(
        outcomes, verdicts, *protected.logits(list(pictures)), strict=True
    ):
        payload = lock.log_odds(decoded) > 0
        errors: dict[str, Any] = asdict(outcome)
        errors["payload_errors"] = int((payload != terms.message ^ source.code).sum())
        if lock.hash is not None:
            code = lock.hash.code(described, verdict.frame or WHOLE)
            seen = terms.code_map.seen(code)[0, source.salt]
            differs = lock.code_of(seen, terms, source.salt) != source.code
            errors["hash_errors"] = int(differs.sum())
        split.append(Outcome(**errors))
    return split


def distorted(
    picture: Picture8, name: str, change: Distortion, rng: np.random.Generator
) -> Picture8:
    """The picture under one distortion; checks the result, which may come from a plugin."""
    try:
        result = np.asarray(change(picture.copy(), rng))
    except Exception as error:
        raise PluginError(
            f"the distortion '{name}' failed: {type(error).__name__}: {error}"
        ) from error
    if result.dtype != np.uint8 or result.ndim != 3 or result.shape[2] != 3:
        raise PluginError(
            f"the distortion '{name}' returned {result.dtype} of shape {result.shape}: "
            "it must return an 8-bit RGB picture (H, W, 3)"
        )
    return result


def forge(
    attack: AnyAttack,
    marked: Sequence[Picture8],
    originals: Sequence[Picture8],
    targets: Sequence[Picture8],
    watermark: Watermark | None = None,
) -> list[Picture8]:
    """The attack's forgeries of the targets, as 8-bit pictures.

    Only an oracle sees the originals of marked pictures, and only a network attack ``watermark``.
    """
    if isinstance(attack, NetworkAttack):
        assert watermark is not None
        forged = attack.forge(floats(marked), floats(targets), watermark=watermark)
    elif isinstance(attack, OracleAttack):
        forged = attack.forge(floats(marked), floats(targets), originals=floats(originals))
    else:
        forged = attack.forge(floats(marked), floats(targets))
    return [to_8_bit(picture) for picture in forged]


def has_key(protected: ProtectedWatermark) -> bool:
    """Whether messages are identifiers, which a key turns into codewords."""
    return isinstance(protected, LockedWatermark) and protected.keyring is not None


def floats(pictures: Sequence[Picture8]) -> Images:
    """8-bit pictures of one size as networks take them: (N, 3, H, W) in [0, 1]."""
    return np.stack([to_float(picture) for picture in pictures])
