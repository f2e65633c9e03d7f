"""Forgeries by the ten thousand, so that "none was accepted" says something (the paper's table 2).

A *group* is one stolen residual: of one picture (GT@1), of a set of pictures that carry one message
(averaging), or of one cleaned picture (WMForger). It is pasted onto many targets. Trials of one
group, and of one target, are not independent, and the intervals admit it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from coverlock_bench.auditing import paper
from coverlock_bench.intervals import clustered_rate
from coverlock_bench.ledger import Session, digest
from coverlock_bench.photos import Picture8
from coverlock_bench.settings import Setting
from coverlock_bench.tables import Row, Table
from coverlock_bench.trial import DefendedWatermark, floats, forge
from coverlock_sdk import Key, Watermark
from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import codeword
from coverlock_sdk.locking.verdict import RULES

NATURALS = 100
"""Unmarked pictures of the attacker's own."""


@dataclass(frozen=True)
class Scale:
    """How many residuals are stolen, and onto how many targets each is pasted."""

    groups: int
    each: int

    def at_most(self, groups: int | None) -> Scale:
        """The same with no more than so many residuals."""
        return self if groups is None else Scale(min(groups, self.groups), self.each)

    def over(self, sources: int, targets: int) -> Scale:
        """About as many forgeries from fewer pictures, none of which is robbed twice.

        Where residuals transfer, a second one of the same picture tells hardly anything new: the
        message cancels out, and what passes on a target hangs on the codes of the two pictures.
        """
        groups = min(self.groups, sources)
        return Scale(groups, min(-(-self.groups * self.each // groups), targets))


SCALES: Mapping[str, Scale] = {
    "gt": Scale(350, 72),
    "averaging": Scale(100, 350),
    "wmforger": Scale(300, 20),
}
"""On each photo set, 25,200 pairs, 100 sets of 100 references and 300 cleaned pictures, or as many
as it has. A few systems and sets together tell zero from the paper's means, if every residual
carries a message of its own: what a target reads like agrees equally well with one message under
any residual."""

BARE = Scale(20, 10)
"""What is tried on the unprotected watermark, for comparison."""


@dataclass(frozen=True)
class Cast:
    """Pictures in three parts that share none."""

    sources: list[Picture8]
    targets: list[Picture8]
    naturals: list[Picture8]

    @classmethod
    def of(cls, pictures: list[Picture8], seed: int) -> Cast:
        """Deal ``pictures``: a part for attackers who bring their own, and two halves."""
        dealt = [
            pictures[index] for index in np.random.default_rng(seed).permutation(len(pictures))
        ]
        naturals = min(NATURALS, len(pictures) // 4)
        half = (len(pictures) - naturals) // 2
        return cls(dealt[:half], dealt[half : 2 * half], dealt[2 * half :][:naturals])


class Robbery:
    """One attack on one watermark behind one defence."""

    def __init__(
        self,
        watermark: Watermark,
        defense: str,
        attack: str,
        pictures: list[Picture8],
        seed: int,
        key: Key,
    ) -> None:
        self.cast, self.seed = Cast.of(pictures, seed), seed
        self.defended = DefendedWatermark(watermark, Setting.parse(defense), DEFAULT_FPR, key)
        self.attack = Setting.parse(attack).attack(naturals=floats(self.cast.naturals))
        if self.attack.references > len(self.cast.sources):
            raise CoverLockError(
                f"'{attack}' needs {self.attack.references} marked pictures, but only "
                f"{len(self.cast.sources)} of {len(pictures)} photos are there to be marked"
            )

    def fitting(self, scale: Scale, groups: int | None) -> Scale:
        """What of ``scale`` these pictures allow, with no more than ``groups`` residuals."""
        alone = self.attack.references == 1
        fitted = scale.over(len(self.cast.sources), len(self.cast.targets)) if alone else scale
        return fitted.at_most(groups)

    def outcome(self, group: int, each: int) -> dict[str, Any]:
        """What verification says of one residual on ``each`` targets."""
        rng = np.random.default_rng([self.seed, group])
        robbed = [group] if self.attack.references == 1 else self._drawn(rng)
        marked = [self._mark(source, group) for source in robbed]
        originals = [self.cast.sources[source] for source in robbed]
        hit = rng.choice(len(self.cast.targets), min(each, len(self.cast.targets)), replace=False)
        targets = [self.cast.targets[index] for index in hit]
        forged = forge(self.attack, marked, originals, targets, self.defended.protected.watermark)
        judged = self.defended.judge(forged, self._message(group))
        return {
            "targets": hit.tolist(),
            "matches": [outcome.matches for outcome in judged],
            "psnr": [_psnr(a, b) for a, b in zip(targets, forged, strict=True)],
            **{rule: [bool(outcome.accepted[rule]) for outcome in judged] for rule in RULES},
        }

    def _drawn(self, rng: np.random.Generator) -> list[int]:
        return [int(i) for i in rng.permutation(len(self.cast.sources))[: self.attack.references]]

    def _message(self, group: int) -> Bits:
        return codeword(f"forgeries, message {group}", None, self.defended.protected.bits)

    def _mark(self, source: int, group: int) -> Picture8:
        return self.defended.mark(self.cast.sources[source], self._message(group))[0]


def forgeries(
    watermark: Watermark,
    defense: str,
    attack: str,
    pictures: list[Picture8],
    scale: Scale,
    seed: int,
    session: Session,
    groups: int | None = None,
) -> dict[str, Any]:
    """How many forgeries pass, in clusters by residual and by target.

    ``groups`` ends the run after so many residuals; a later one goes on from there.
    """
    robbery = Robbery(watermark, defense, attack, pictures, seed, session.key())
    scale = robbery.fitting(scale, groups)
    key = {
        "kind": "forgeries",
        "lock": session.fingerprint(robbery.defended.protected),
        "attack": repr(robbery.attack),
        "pictures": digest(*pictures),
        "seed": seed,
        "each": scale.each,
    }
    label = f"{watermark.name}, {defense}, {attack}"
    rows = [
        session.once(partial(robbery.outcome, group, scale.each), **key, group=group)
        for group in session.steps(range(scale.groups), label)
    ]
    return _summary([row for row in rows if row], watermark.bits)


def _summary(rows: list[dict[str, Any]], bits: int) -> dict[str, Any]:
    groups = np.repeat(np.arange(len(rows)), [len(row["targets"]) for row in rows])
    targets, matches, psnr = (
        np.concatenate([row[name] for row in rows]) for name in ("targets", "matches", "psnr")
    )
    shares: dict[str, Any] = {
        rule: clustered_rate(np.concatenate([row[rule] for row in rows]), matches, groups, targets)
        for rule in RULES
    }
    return {
        **shares,
        "agreement": float(matches.mean() / bits),
        "most_matches": int(matches.max()),
        "psnr": float(psnr.mean()),
    }


def _psnr(target: Picture8, forged: Picture8) -> float:
    """In decibels; equal pictures have none, and get 100."""
    return min(read(target).psnr(read(forged)), 100.0)


def pooled(cells: Sequence[Row], rule: str) -> dict[str, Any]:
    """Cells of several systems and photo sets as one, each photo set worth its best cell.

    Systems repeat one another on the same photos: what passes hangs on codes of pictures, and the
    code of a short payload is part of that of a long one.
    """
    from scipy.stats import beta

    worths: dict[str, float] = {}
    for cell in cells:
        worths[cell["photos"]] = max(worths.get(cell["photos"], 0.0), cell[rule]["worth"])
    worth = sum(worths.values())
    successes, trials = (
        sum(cell[rule][name] for cell in cells) for name in ("successes", "trials")
    )
    effective = successes * worth / trials
    high = float(beta.ppf(0.975, effective + 1, worth - effective))
    return {"successes": successes, "trials": trials, "worth": worth, "high": high}


def _rows(figures: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = [
        {"system": system, "photos": photos, "attack": attack, "defense": defense, **cell}
        for system, by_photos in figures.items()
        for photos, by_attack in by_photos.items()
        for attack, by_defense in by_attack.items()
        for defense, cell in by_defense.items()
    ]
    return rows


def pooled_rows(figures: Mapping[str, Any]) -> list[Row]:
    """For each attack and lock, all cells as one beside the paper's mean over its systems."""
    every = _rows(figures)
    kinds = dict.fromkeys((row["attack"], row["defense"]) for row in every)
    rows: list[Row] = []
    for attack, defense in kinds:
        if defense == "none":
            continue
        cells = [row for row in every if (row["attack"], row["defense"]) == (attack, defense)]
        rows.append(
            {
                "attack": attack,
                "defense": defense,
                "cells": len(cells),
                "systems": ", ".join(dict.fromkeys(row["system"] for row in cells)),
                "photos": ", ".join(dict.fromkeys(row["photos"] for row in cells)),
                **{rule: pooled(cells, rule) for rule in RULES},
                "paper": paper.AVERAGE_ASR.get(attack),
                "alike": _paper_alike(cells),
            }
        )
    return rows


def _paper_alike(cells: Sequence[Row]) -> float | None:
    """The paper's mean, in percent, over its cells for the same systems and photo sets."""
    places = dict.fromkeys((row["system"].split("-")[0], row["photos"]) for row in cells)
    attack, defense = cells[0]["attack"], cells[0]["defense"]
    found = [paper.asr(system, photos, attack, defense) for system, photos in places]
    known = [share for share in found if share is not None]
    return fmean(known) if known else None


_CELL = "{%s/successes} of {%s/trials} (at most {%s/high:%%3} %%)"

FORGERIES = Table(
    "Forgeries at scale",
    _rows,
    [
        ("system", "{system}"),
        ("photos", "{photos}"),
        ("attack", "{attack}"),
        ("defence", "{defense}"),
        ("accepted, hard", _CELL.replace("%s", "hard").replace("%%", "%")),
        ("accepted, soft", _CELL.replace("%s", "soft").replace("%%", "%")),
        ("residuals, targets", lambda row: ", ".join(map(str, row["hard"]["clusters"]))),
        ("worth as independent trials", "{hard/worth:.0f}"),
        ("bits that agree", "{agreement:%1} %"),
        ("most in one", "{most_matches|-}"),
        ("PSNR", "{psnr:.1f} dB"),
    ],
)

FORGERIES_POOLED = Table(
    "Forgeries at scale, all systems and photo sets as one",
    pooled_rows,
    [
        ("attack", "{attack}"),
        ("behind", "{defense}"),
        ("systems", "{systems}"),
        ("photos", "{photos}"),
        ("accepted, hard", "{hard/successes} of {hard/trials}"),
        ("worth", "{hard/worth:.0f}"),
        ("at most, 95 %", "{hard/high:%3} %"),
        ("accepted, soft", "{soft/successes} of {soft/trials}"),
        ("at most", "{soft/high:%3} %"),
        ("paper, the same systems and photos, at full size", "{alike|-:.3f} %"),
        ("paper, all systems and photos", "{paper|-:.3f} %"),
    ],
)
