"""Forgeries by the thousand beside genuine pictures: the headline, and robustness.

A *group* is one stolen residual: of one picture (GT@1), of a set of pictures that carry one message
(averaging), or of one cleaned picture (WMForger). It is pasted onto many targets. Trials of one
group, and of one target, are not independent, and the intervals admit it. Genuine pictures come
from the same photos; errors of their bits are split into those of payload and hash (figure 4b).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from coverlock_bench.auditing.assessment import cell
from coverlock_bench.auditing.collection import SIDE
from coverlock_bench.auditing.trials import Trials
from coverlock_bench.hashes.codes import PLACED
from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.ledger import Ledger, Session, digest, resumable
from coverlock_bench.measurement import (
    FOLDER,
    Measured,
    measurement,
    number_option,
    seed_option,
    watermarks_option,
    work_option,
)
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_bench.settings import PAPER, Setting, named_watermark
from coverlock_bench.tables import Columns, Row, Table
from coverlock_bench.trial import CLEAN, floats, forge, has_key, judge, mark
from coverlock_sdk import CoverLock, Key, Watermark, load_hash
from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION, Sharing
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import codeword
from experiments import paper
from experiments.clusters import clustered_rate

NATURALS = 100
"""Unmarked pictures of the attacker's own."""

CHANGES = {**EVALUATION, **PLACED, "half size, JPEG 80": Sharing(0.5, quality=80)}
"""The paper's six distortions, crops anywhere, a turn, and what social media do."""


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
    "gt": Scale(350, 6),
    "averaging": Scale(100, 6),
    "wmforger": Scale(240, 1),
}
"""For each attack; every residual carries a message of its own."""

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
        order = np.random.default_rng(seed).permutation(len(pictures))
        dealt = [pictures[index] for index in order]
        naturals = min(NATURALS, len(pictures) // 4)
        half = (len(pictures) - naturals) // 2
        return cls(dealt[:half], dealt[half : 2 * half], dealt[2 * half :][:naturals])


class Robbery:
    """One attack on one watermark behind one defence."""

    def __init__(
        self, watermark: Watermark, defense: str, attack: str, cast: Cast, seed: int, key: Key
    ) -> None:
        self.cast, self.seed = cast, seed
        defended = Setting.parse(defense).defense(key, fpr=DEFAULT_FPR)
        self.protected = defended.protect(watermark)
        self.attack = Setting.parse(attack).attack(naturals=floats(cast.naturals))
        if self.attack.references > len(cast.sources):
            raise CoverLockError(
                f"'{attack}' needs {self.attack.references} marked pictures, but only "
                f"{len(cast.sources)} photos are there to be marked"
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
        message = self._message(group)
        originals = [self.cast.sources[source] for source in robbed]
        marked = [mark(self.protected, original, message).picture for original in originals]
        hit = rng.choice(len(self.cast.targets), min(each, len(self.cast.targets)), replace=False)
        targets = [self.cast.targets[index] for index in hit]
        forged = forge(self.attack, marked, originals, targets, self.protected.watermark)
        judged = judge(self.protected, forged, message)
        return {
            "targets": hit.tolist(),
            "matches": [outcome.matches for outcome in judged],
            "psnr": [_psnr(a, b) for a, b in zip(targets, forged, strict=True)],
            "accepted": [outcome.accepted for outcome in judged],
        }

    def _drawn(self, rng: np.random.Generator) -> list[int]:
        return [int(i) for i in rng.permutation(len(self.cast.sources))[: self.attack.references]]

    def _message(self, group: int) -> str | Bits:
        name = f"headline, message {group}"
        return name if has_key(self.protected) else codeword(name, None, self.protected.bits)


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
    cast = Cast.of(pictures, seed)
    robbery = Robbery(watermark, defense, attack, cast, seed, session.key())
    scale = robbery.fitting(scale, groups)
    key = {
        "kind": "forgeries",
        "lock": session.fingerprint(robbery.protected),
        "attack": repr(robbery.attack),
        "model": robbery.attack.model_digest(),
        "pictures": digest(*pictures),
        "seed": seed,
        "each": scale.each,
    }
    rows = [
        session.once(partial(robbery.outcome, group, scale.each), **key, group=group)
        for group in session.steps(range(scale.groups), f"{watermark.name}, {defense}, {attack}")
    ]
    return _summary(rows, watermark.bits)


def _summary(rows: list[dict[str, Any]], bits: int) -> dict[str, Any]:
    groups = np.repeat(np.arange(len(rows)), [len(row["targets"]) for row in rows])
    targets, matches, psnr, accepted = (
        np.concatenate([row[name] for row in rows])
        for name in ("targets", "matches", "psnr", "accepted")
    )
    return {
        "asr": clustered_rate(accepted, matches, groups, targets),
        "agreement": float(matches.mean() / bits),
        "most_matches": int(matches.max()),
        "psnr": float(psnr.mean()),
    }


def genuine(
    watermark: Watermark,
    defense: str,
    pictures: list[Picture8],
    count: int,
    seed: int,
    session: Session,
) -> dict[str, Any]:
    """How many of ``count`` marked pictures verify, as they are and under every distortion."""
    trials = Trials(watermark, Setting.parse(defense), DEFAULT_FPR, session)
    rows = trials.genuine(Cast.of(pictures, seed).sources[:count], seed, CHANGES)
    return {name: cell("tpr", found) for name, found in rows.items()}


def weights_of_defenses(defenses: Iterable[str]) -> dict[str, dict[str, str]]:
    """The weight files behind the hashes of some defences, by the name of the hash."""
    made = [Setting.parse(text).defense() for text in defenses]
    hashes = [load_hash(each.hash) for each in made if isinstance(each, CoverLock)]
    return {image_hash.name: weights_of(image_hash) for image_hash in hashes}


def _psnr(target: Picture8, forged: Picture8) -> float:
    """In decibels; equal pictures have none, and get 100."""
    return min(read(target).psnr(read(forged)), 100.0)


# Tables


def label_of(defense: str) -> str:
    """A defence as tables call it: without paths, and the paper's method by its name."""
    setting, paper = Setting.parse(defense), Setting.parse(PAPER)
    own = dict(setting.options)
    if setting.name == paper.name and dict(paper.options).items() <= own.items():
        return f"the paper's method, {own.get('hash', DEFAULT_HASH)}"
    registry = own.pop("registry", None)
    plain = str(Setting(setting.name, tuple(own.items())))
    return plain if registry is None else f"{plain}, registry"


def _rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    """Each system, photo set and defence; the mean over the six distortions beside the others."""
    for system, by_photos in figures.items():
        for photos, by_defense in by_photos.items():
            for defense, found in by_defense.items():
                six = [found["genuine"][name] for name in EVALUATION]
                mean = {
                    "tpr": fmean(row["tpr"]["rate"] for row in six),
                    "error": {
                        part: fmean(row["error"][part] for row in six)
                        for part in ("payload", "hash", "message")
                        if six[0]["error"][part] is not None
                    },
                }
                label = label_of(defense)
                named = {"system": system, "photos": photos, "defense": label}
                published = {a: paper.asr(system, photos, a, defense) for a in found["attacks"]}
                yield {**named, **found, "six": mean, "paper": published}


WHO: Columns = (("system", "{system}"), ("photos", "{photos}"), ("defence", "{defense}"))
ATTACKS = {"gt": "GT@1", "averaging": "averaging", "wmforger": "WMForger"}
_COUNT = "{P/successes|-} of {P/trials} [{P/low:%2}, {P/high:%2}] %"

HEADLINE = Table(
    "Forgeries and genuine pictures accepted",
    _rows,
    (
        *WHO,
        *((name, _COUNT.replace("P", f"attacks/{a}/asr")) for a, name in ATTACKS.items()),
        ("PSNR of marks", f"{{genuine/{CLEAN}/psnr:.1f}} dB"),
        ("genuine", _COUNT.replace("P", f"genuine/{CLEAN}/tpr")),
        ("mean of six distortions", "{six/tpr:%1} %"),
        ("paper's GT@1, at full size", "{paper/gt|-:.2f} %"),
    ),
)
ROBUSTNESS = Table(
    "Genuine pictures accepted under each distortion",
    _rows,
    (*WHO, *((n, _COUNT.replace("P", f"genuine/{n}/tpr")) for n in (CLEAN, *CHANGES))),
)
SPLIT = Table(
    "Bit errors of payload and hash, means over the six distortions (figure 4b)",
    _rows,
    (*WHO, *((p, f"{{six/error/{p}|-:%2}} %") for p in ("payload", "hash", "message"))),
)


@measurement(
    "experiments headline",
    watermarks_option,
    seed_option,
    click.option(
        "--images",
        "folders",
        multiple=True,
        required=True,
        type=FOLDER,
        help="Folder of photos that no training has seen. May be repeated.",
    ),
    click.option(
        "-d",
        "--defense",
        "defenses",
        multiple=True,
        default=("none", "coverlock"),
        show_default=True,
        help=f"May be repeated; '{PAPER},hash=dinov2-s' is the paper's method to the letter.",
    ),
    click.option(
        "-a", "--attack", "attacks", multiple=True, default=tuple(SCALES), show_default=True
    ),
    click.option("--groups", type=click.IntRange(2), help="Residuals to steal at most."),
    number_option("--genuine", 100, "Genuine pictures."),
    work_option("headline"),
)
def headline(
    watermarks: tuple[str, ...],
    folders: tuple[Path, ...],
    defenses: tuple[str, ...],
    attacks: tuple[str, ...],
    groups: int | None,
    genuine: int,
    work: Path,
    seed: int,
) -> Iterator[Measured]:
    """Forge thousands of pictures with each attack, and verify genuine ones under distortions."""
    session = Session(Ledger(work), quiet=False)
    config = {
        "seed": seed,
        "groups": groups,
        "genuine": genuine,
        "attacks": list(attacks),
        "weights": weights_of_defenses(defenses),
    }
    figures: dict[str, Any] = {}
    with resumable(work):
        for folder, name in product(folders, watermarks):
            pictures, watermark = load_squares(find_photos(folder), SIDE), named_watermark(name)
            cells = figures.setdefault(name, {}).setdefault(folder.name, {})
            for defense in defenses:
                cells[defense] = measured(
                    watermark, defense, attacks, pictures, groups, genuine, seed, session
                )
                yield Measured(config, figures, HEADLINE.markdown(figures))


def measured(
    watermark: Watermark,
    defense: str,
    attacks: tuple[str, ...],
    pictures: list[Picture8],
    groups: int | None,
    count: int,
    seed: int,
    session: Session,
) -> dict[str, Any]:
    """One watermark behind one defence on one photo set."""
    scales = dict.fromkeys(attacks, BARE) if defense == "none" else SCALES
    return {
        "genuine": genuine(watermark, defense, pictures, count, seed, session),
        "attacks": {
            attack: forgeries(
                watermark, defense, attack, pictures, scales[attack], seed, session, groups
            )
            for attack in attacks
        },
    }
