"""mark -> distort -> forge -> judge: the way that every measurement takes, written once.

Pictures are 8-bit RGB (H, W, 3) throughout, as they are saved; networks and attacks see floats.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_bench.settings import DEFAULT_RULE, Setting
from coverlock_sdk import Key, Marked, NetworkAttack, OracleAttack, ProtectedWatermark, Watermark
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.contract import AnyAttack
from coverlock_sdk.errors import PluginError, WeakMarkWarning
from coverlock_sdk.hashing.frames import WHOLE
from coverlock_sdk.images.distortions import EVALUATION, Distortion
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES, Rule

CLEAN = "clean"
FORGED = "forged"
TRANSPLANT = GroundTruthResidual(sources=1)
"""The strongest theft from one picture: its true residual, pasted elsewhere."""


class Mark(NamedTuple):
    """A marked picture, and what its payload was bound to where that is known."""

    picture: Picture8
    code: Bits | None = None
    salt: int = 0


@dataclass(frozen=True)
class Outcome:
    """What verification made of one picture."""

    accepted: dict[Rule, bool]
    matches: int
    bits: int
    payload_errors: int | None = None
    """Bits that the decoder read differently from what was embedded, before the lock is undone."""
    hash_errors: int | None = None
    """Bits in which the picture's code is not the code that was embedded; None without a lock.

    The code is that of the frame in which the picture was accepted, or of the whole picture.
    """
    score: float | None = None
    """How genuine a filter finds the picture, where the defence has one."""
    carried: dict[Rule, bool] | None = None
    """Whether the message was found, whatever the filter's score."""

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return asdict(self)


def mark(lock: LockedWatermark, picture: Picture8, message: Any) -> Marked:
    """Mark a picture; a weak mark is no surprise in a measurement, which counts them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)
        return lock.mark(picture, message)


def distort(
    picture: Picture8, distortions: Mapping[str, Distortion], rng: np.random.Generator
) -> dict[str, Picture8]:
    """The picture under each distortion."""
    return {name: distorted(picture, name, change, rng) for name, change in distortions.items()}


def distorted(
    picture: Picture8, name: str, change: Distortion, rng: np.random.Generator
) -> Picture8:
    """The picture under one distortion, which may be a plugin's and is held to its promise."""
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
    """The targets as the attack forges them, saved as 8-bit pictures."""
    forged = forgeries(attack, marked, originals, targets, watermark)
    return [to_8_bit(picture) for picture in forged]


def forgeries(
    attack: AnyAttack,
    marked: Sequence[Picture8],
    originals: Sequence[Picture8],
    targets: Sequence[Picture8],
    watermark: Watermark | None = None,
) -> Images:
    """The targets as the attack forges them.

    Only an oracle sees the originals of the marked, and only a network attack the ``watermark``.
    """
    if isinstance(attack, NetworkAttack):
        assert watermark is not None
        return attack.forge(floats(marked), floats(targets), watermark=watermark)
    if isinstance(attack, OracleAttack):
        return attack.forge(floats(marked), floats(targets), originals=floats(originals))
    return attack.forge(floats(marked), floats(targets))


def judge(
    lock: LockedWatermark,
    pictures: Iterable[Picture8],
    message: str | Bits,
    code: Bits | None = None,
    salt: int = 0,
) -> list[Outcome]:
    """Judge ``pictures`` under both rules from one pass of decoder and hash.

    ``code`` is the one that was embedded, under ``salt``; against it the errors of payload and
    hash are counted.
    """
    decoded, described = lock.logits(list(pictures))
    terms = lock.lock.terms(message, lock.keys[0])
    judged = {
        rule: replace(lock.lock, rule=rule).verify(decoded, described, message) for rule in RULES
    }
    outcomes = []
    for row in range(len(decoded)):
        payload_errors = hash_errors = None
        if code is not None:
            payload = lock.lock.log_odds(decoded[row]) > 0
            payload_errors = int((payload != terms.message ^ code).sum())
            if lock.hash is not None:
                frame = judged[DEFAULT_RULE][row].frame or WHOLE
                seen = terms.code_map.seen(lock.hash.code(described[row], frame))[0, salt]
                hash_errors = int((lock.lock.code_of(seen, terms, salt) != code).sum())
        outcomes.append(
            Outcome(
                accepted={rule: judged[rule][row].accepted for rule in RULES},
                matches=judged[DEFAULT_RULE][row].matches,
                bits=lock.bits,
                payload_errors=payload_errors,
                hash_errors=hash_errors,
            )
        )
    return outcomes


def transplant_trial(
    lock: LockedWatermark,
    cover: Picture8,
    marked: Marked,
    victim: Picture8,
    message: str | Bits,
    rng: np.random.Generator,
) -> dict[str, Outcome]:
    """One marked cover as it is, under the six distortions, and robbed for the victim."""
    seen = {CLEAN: marked.picture, **distort(marked.picture, EVALUATION, rng)}
    [seen[FORGED]] = forge(TRANSPLANT, [marked.picture], [cover], [victim])
    judged = judge(lock, seen.values(), message, marked.code, marked.salt)
    return dict(zip(seen, judged, strict=True))


class DefendedWatermark:
    """A watermark behind any defence, which marks pictures and is asked under every rule.

    CoverLock has ``key``, unless ``defense`` says otherwise.
    """

    def __init__(self, watermark: Watermark, defense: Setting, fpr: float, key: Key) -> None:
        self.by_rule: Mapping[Rule, ProtectedWatermark] = {
            rule: defense.defense(key, fpr=fpr, rule=rule).protect(watermark) for rule in RULES
        }
        self.protected = self.by_rule[DEFAULT_RULE]

    @property
    def keyed(self) -> bool:
        """Whether messages are identifiers, which a key turns into codewords."""
        return isinstance(self.protected, LockedWatermark) and self.protected.keyring is not None

    def mark(self, picture: Picture8, message: str | Bits) -> Mark:
        """The marked picture."""
        if isinstance(self.protected, LockedWatermark):
            marked = mark(self.protected, picture, message)
            return Mark(marked.picture, marked.code, marked.salt)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakMarkWarning)
            return Mark(self.protected.embed([picture], message)[0])

    def judge(
        self, pictures: Sequence[Picture8], message: str | Bits, source: Mark | None = None
    ) -> list[Outcome]:
        """What verification says of ``pictures`` that should, or should not, carry ``message``.

        Errors are counted against ``source``, the mark that they were made from.
        """
        if isinstance(self.protected, LockedWatermark):
            code, salt = (source.code, source.salt) if source else (None, 0)
            return judge(self.protected, pictures, message, code, salt)
        judged = {rule: p.verify(list(pictures), message) for rule, p in self.by_rule.items()}
        scores = self.protected.scores(list(pictures))
        return [
            Outcome(
                accepted={rule: bool(judged[rule][row].accepted) for rule in RULES},
                matches=judged[DEFAULT_RULE][row].matches,
                bits=judged[DEFAULT_RULE][row].bits,
                score=None if scores is None else float(scores[row]),
                carried={r: judged[r][row].p_value <= judged[r][row].fpr for r in RULES},
            )
            for row in range(len(pictures))
        ]


def floats(pictures: Sequence[Picture8]) -> Images:
    """8-bit pictures of one size as networks take them: (N, 3, H, W) in [0, 1]."""
    return np.stack([to_float(picture) for picture in pictures])
