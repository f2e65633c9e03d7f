"""Trials of one watermark: genuine pictures under distortion, and forgeries by every attack.

Every source carries its own message, because some messages are easier to carry than others. It is
distorted (for the TPR) and its residual is stolen. For attacks that average, all sources of a seed
carry one message, as if a vendor marked everything with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from coverlock_bench.ledger import NotMeasuredError, Session, digest
from coverlock_bench.photos import Picture8
from coverlock_bench.settings import Setting
from coverlock_bench.trial import (
    CLEAN,
    Mark,
    Outcome,
    distorted,
    floats,
    forge,
    has_key,
    judge,
    mark,
)
from coverlock_sdk import NetworkAttack, Watermark
from coverlock_sdk.arrays import Bits
from coverlock_sdk.contract import AnyAttack
from coverlock_sdk.errors import needs
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION, Distortion
from coverlock_sdk.locking.keys import codeword
from coverlock_sdk.locking.locked_watermark import LockedWatermark

TARGETS_AT_ONCE = 10
MARKS_IN_MEMORY = 1000
Row = dict[str, Any]


@dataclass(frozen=True)
class Division:
    """Disjoint pictures of one size: sources to mark and steal from, and targets to forge."""

    sources: Sequence[Picture8]
    targets: Sequence[Picture8]
    seed: int
    naturals: Sequence[Picture8]
    """The attacker's own unmarked pictures; the targets, if there are no others."""

    @classmethod
    def of(
        cls,
        pictures: Sequence[Picture8],
        wanted: int,
        seed: int,
        naturals: Sequence[Picture8] = (),
    ) -> Division:
        """Up to ``wanted`` sources and as many targets, or half of the pictures each."""
        if len(pictures) < 2:
            raise NotMeasuredError(
                f"a forgery needs at least 2 pictures, one to steal from and one to forge, "
                f"but there are {len(pictures)}"
            )
        order = np.random.default_rng(seed).permutation(len(pictures))
        count = min(wanted, len(pictures) // 2)
        targets = [pictures[i] for i in order[count : 2 * count]]
        others = naturals if len(naturals) >= count else targets
        return cls([pictures[i] for i in order[:count]], targets, seed, others)


class Trials:
    """One watermark behind one defence."""

    def __init__(
        self, watermark: Watermark, defense: Setting, fpr: float, session: Session
    ) -> None:
        self.protected = defense.defense(session.key(), fpr=fpr).protect(watermark)
        self.label = f"{watermark.name}, {defense}"
        self._defense = str(defense)
        self._session = session
        self._fpr = fpr
        self._marks: dict[str, Mark] = {}
        locked = isinstance(self.protected, LockedWatermark) and self.protected.hash
        self._known = {"hash": locked} if locked else {}

    @property
    def lock(self) -> str:
        """A digest that changes with the watermark and the defence."""
        return self._session.fingerprint(self.protected)

    def message(self, seed: int, source: int | None = None) -> str | Bits:
        """The message of a source, or the shared message for attacks that take many."""
        whose = "all" if source is None else f"source {source}"
        identifier = f"bench, seed {seed}, {whose}"
        if has_key(self.protected):
            return identifier
        return codeword(identifier, None, self.protected.bits)

    def genuine(
        self, sources: Sequence[Picture8], seed: int, distortions: Mapping[str, Distortion]
    ) -> dict[str, list[Row]]:
        """Verdicts on marked pictures as they are, and after each distortion."""
        changes = {CLEAN: None, **distortions}
        rows: dict[str, list[Row]] = {name: [] for name in changes}
        steps = self._session.steps(sources, f"{self.label}: genuine pictures")
        for index, source in enumerate(steps):
            message = self.message(seed, index)
            own = {"picture": digest(source), "message": digest(message)}
            keys = [
                self._key("genuine", seed, **own, distortion=_described_change(name, change))
                for name, change in changes.items()
            ]
            made = [
                partial(distorted, name=name, change=change, rng=_noise(seed, index, name))
                for name, change in distortions.items()
            ]
            measure = partial(self._verified, source, message, made)
            for name, row in zip(changes, self._session.each(keys, measure), strict=True):
                rows[name].append(row)
        return rows

    def _verified(
        self,
        source: Picture8,
        message: str | Bits,
        changes: Sequence[Callable[[Picture8], Picture8]],
    ) -> list[Row]:
        """Verdicts on a marked source as it is, and after each of ``changes``."""
        marked = self.mark(source, message)
        seen = [marked.picture, *(change(marked.picture) for change in changes)]
        clean, *changed = map(asdict, judge(self.protected, seen, message, marked))
        return [clean | similarity(source, marked.picture), *changed]

    def forgeries(self, setting: Setting, division: Division, count: int) -> list[Row]:
        """Verdicts on ``count`` targets that ``setting``'s attack has forged.

        An attack that takes one reference steals from another source for every target; an attack
        that takes many steals from the same sources for all targets.
        """
        attack = self._attack(setting, division)
        if isinstance(attack, NetworkAttack):
            attack.require(self.protected.watermark)
        alone = attack.references == 1
        targets = division.targets[:count]
        step = 1 if alone else TARGETS_AT_ONCE
        attacker = {
            "attack": _described(setting, attack),
            "model": attack.model_digest(),
            "naturals": digest(attack.naturals),
        }
        rows: list[Row] = []
        label = f"{self.label}: {setting}"
        for start in self._session.steps(range(0, len(targets), step), label):
            first = start if alone else 0
            sources = division.sources[first : first + attack.references]
            message = self.message(division.seed, start if alone else None)
            block = targets[start : start + step]
            own = {"sources": digest(*sources), "message": digest(message)}
            keys = [
                self._key("forgery", division.seed, **attacker, **own, target=digest(target))
                for target in block
            ]
            measure = partial(self._forged, attack, sources, message, block)
            rows += self._session.each(keys, measure)
        return rows

    def example(self, setting: Setting, division: Division) -> tuple[Picture8, Picture8, Outcome]:
        """A marked source, the first target forged from it, and the verdict on that target."""
        attack = self._attack(setting, division)
        sources = division.sources[: attack.references]
        message = self.message(division.seed)
        marked = self._marked(sources, message)
        forged = forge(attack, marked, sources, division.targets[:1], self.protected.watermark)
        return marked[0], forged[0], judge(self.protected, forged, message)[0]

    def _forged(
        self,
        attack: AnyAttack,
        sources: Sequence[Picture8],
        message: str | Bits,
        targets: Sequence[Picture8],
    ) -> list[Row]:
        """Verdicts on ``targets``, all forged from the same sources."""
        marked = self._marked(sources, message)
        pictures = forge(attack, marked, sources, targets, self.protected.watermark)
        robbed = self.mark(sources[0], message) if len(sources) == 1 else None
        outcomes = judge(self.protected, pictures, message, robbed)
        return [
            asdict(outcome) | similarity(target, picture)
            for outcome, target, picture in zip(outcomes, targets, pictures, strict=True)
        ]

    def _attack(self, setting: Setting, division: Division) -> AnyAttack:
        """The attack; raises if there are too few pictures for it."""
        attack = setting.attack(naturals=floats(division.naturals), **self._known)
        wanted = attack.references
        if wanted > len(division.sources):
            raise NotMeasuredError(
                f"needs {wanted} marked pictures and other targets, "
                f"there are {len(division.sources)}"
            )
        return attack

    def _marked(self, sources: Sequence[Picture8], message: str | Bits) -> list[Picture8]:
        return [self.mark(source, message).picture for source in sources]

    def mark(self, source: Picture8, message: str | Bits) -> Mark:
        """A source with its message in it; each is marked only once."""
        name = digest(source, message)
        if name not in self._marks:
            if len(self._marks) >= MARKS_IN_MEMORY:
                self._marks.clear()
            self._marks[name] = mark(self.protected, source, message)
        return self._marks[name]

    def _key(self, kind: str, seed: int, **more: Any) -> dict[str, Any]:
        lock = {"defense": self._defense, "lock": self.lock, "fpr": self._fpr}
        return {"kind": kind, "seed": seed, **lock, **more}


def _described(setting: Setting, attack: AnyAttack) -> str:
    """The attack with its options, and their defaults if it has its own ``repr``."""
    anonymous = type(attack).__repr__ is object.__repr__
    return str(setting) if anonymous else f"{setting} {attack!r}"


def similarity(original: Picture8, changed: Picture8) -> dict[str, float]:
    """PSNR in decibels and SSIM between two pictures; equal pictures have no PSNR."""
    with needs("SSIM", "scikit-image", "bench"):
        from skimage.metrics import structural_similarity
    psnr = read(original).psnr(read(changed))
    ssim = structural_similarity(  # type: ignore[no-untyped-call]
        original, changed, channel_axis=2, data_range=255
    )
    return {"psnr": min(psnr, 100.0), "ssim": float(ssim)}


def _described_change(name: str, change: Distortion | None) -> str:
    """A description of a distortion; for a plain function, only its name."""
    return repr(change) if change is None or is_dataclass(change) else name


def _noise(seed: int, index: int, name: str) -> np.random.Generator:
    """The random generator for one distortion of one picture, whatever else is measured."""
    six = list(EVALUATION)
    stream = 1 + six.index(name) if name in six else int(digest(name), 16)
    return np.random.default_rng([seed, index, stream])
