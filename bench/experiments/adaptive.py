"""Attackers who know the lock: how far they get, and with which budget.

The paper's attackers do not know that there is a lock (its stated limitation). These know the hash
and its weights, and have the true residual of every released picture, but not the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from coverlock_bench.attacks.best_match import BestMatch
from coverlock_bench.attacks.feature_collision import FeatureCollision
from coverlock_bench.attacks.same_scene import PastedObject
from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import Ledger, Session, digest, fingerprint, resumable
from coverlock_bench.measurement import Measured, count_option, measurement, work_option
from coverlock_bench.photos import Picture8, find_photos, load_squares, resized
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import RATE, Table, below, nested
from coverlock_bench.trial import TRANSPLANT, floats, forge, judge, mark
from coverlock_sdk import CoverLock, Key, load_hash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.distortions import (
    Brightness,
    Contrast,
    Crop,
    Distortion,
    Flip,
    Rotation,
)
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import working_size

ATTACKS = (
    "best match",
    "collision, key",
    "collision, no key",
    "pasted object",
    "near-duplicate",
)

POOLS = (1, 100, 400)
"""How many released pictures the best match is chosen from."""

BUDGETS = (8.0, 16.0, 32.0, 64.0)
"""Largest change of a value in a feature collision, in grey levels."""

LEAST_PSNR = (40.0, 34.0, 28.0)
"""The change as a whole, in decibels: between the target with its residual and what comes of it."""

OBJECTS = {
    "5 %, in the middle": PastedObject(0.05),
    "10 %, in the middle": PastedObject(0.10),
    "20 %, in the middle": PastedObject(0.20),
    "5 %, in a corner": PastedObject(0.05, centre=(0.85, 0.85)),
    "10 %, in a corner": PastedObject(0.10, centre=(0.8, 0.8)),
}
"""Objects pasted into a marked picture: the share of it they cover, and where."""

DUPLICATES: dict[str, Distortion] = {
    "crop to 90 %": Crop(0.9),
    "crop to 80 %": Crop(0.8),
    "crop to 50 %": Crop(0.5),
    "brighter by 20 %": Brightness(1.2),
    "more contrast by 20 %": Contrast(1.2),
    "turned by 5 degrees": Rotation(5),
    "mirrored": Flip(),
}
"""Other pictures of the marked scene, onto which its residual is transplanted."""

SECRET = Key(b"the adaptive attacker has no key", id="bench")


@dataclass
class Scene:
    """Marked pictures of one deployment, targets to forge, and a way to judge forgeries."""

    protected: LockedWatermark
    originals: list[Picture8]
    targets: list[Picture8]
    message: str = "adaptive"
    """What every released picture carries, and every forgery should."""
    _marked: dict[int, Picture8] = field(default_factory=dict)

    def marked(self, index: int) -> Picture8:
        """The released version of an original; made when it is first asked for."""
        if index not in self._marked:
            marked = mark(self.protected, self.originals[index], self.message)
            self._marked[index] = marked.picture
        return self._marked[index]

    def transplants(self, indices: Sequence[int], targets: Sequence[Picture8]) -> list[Picture8]:
        """Each of ``targets`` with the residual of the original at the index beside it."""
        pairs = zip(indices, targets, strict=True)
        return [forge(TRANSPLANT, [self.marked(i)], [self.originals[i]], [t])[0] for i, t in pairs]

    def judge(self, forged: Sequence[Picture8], beside: Sequence[Picture8]) -> dict[str, Any]:
        """How many of ``forged`` pass, and how far they are from the pictures ``beside`` them."""
        seen = judge(self.protected, forged, self.message)
        return {
            "asr": rate(sum(outcome.accepted for outcome in seen), len(seen)),
            "bits_matched": float(np.mean([outcome.matches / outcome.bits for outcome in seen])),
            "psnr": float(np.mean([_psnr(a, b) for a, b in zip(forged, beside, strict=True)])),
        }


def adaptive(
    watermark: str,
    hash: str,
    photos: list[Path],
    count: int,
    fpr: float,
    seed: int,
    session: Session,
    only: Sequence[str] = ATTACKS,
) -> dict[str, Any]:
    """ASR of each adaptive attacker against its budget, on ``count`` targets each."""
    if len(photos) < 2 * count:
        raise CoverLockError(
            f"{count} targets and as many released pictures need {2 * count} photos, "
            f"but there are {len(photos)}"
        )
    system = named_watermark(watermark)
    order = np.random.default_rng(seed).permutation(len(photos))
    squares = load_squares([photos[row] for row in order], working_size(system)[0])
    scenes = {
        arm: Scene(
            CoverLock(hash=hash, key=key, fpr=fpr).protect(system),
            originals=squares[count:],
            targets=squares[:count],
        )
        for arm, key in (("key", SECRET), ("no key", None))
    }
    cells = [*_best_match(scenes, hash), *_collision(scenes, hash), *_same_scene(scenes, seed)]
    figures: dict[str, Any] = {}
    depends = {
        "lock": [fingerprint(scene.protected) for scene in scenes.values()],
        "count": count,
        "fpr": fpr,
        "seed": seed,
        "photos": digest(*squares),
    }
    for cell in session.steps([cell for cell in cells if cell.attack in only], "adaptive"):
        key = {**depends, "attack": cell.attack, "budget": cell.budget, "setting": cell.setting}
        figures.setdefault(cell.attack, {})[cell.budget] = session.once(cell.measure, **key)
    return figures


@dataclass(frozen=True)
class Cell:
    """One attack with one budget."""

    attack: str
    budget: str
    setting: str
    """Everything else that the attack depends on."""
    measure: Callable[[], dict[str, Any]]


def _best_match(scenes: dict[str, Scene], hash: str) -> list[Cell]:
    """Features of originals stand for those of released pictures, which a mark hardly moves."""
    scene, attack = scenes["key"], BestMatch(hash)

    def measure(pool: int) -> dict[str, Any]:
        chosen = attack.choose(floats(scene.originals[:pool]), floats(scene.targets))
        return scene.judge(scene.transplants(list(map(int, chosen)), scene.targets), scene.targets)

    pools = [pool for pool in POOLS if pool <= len(scene.originals)]
    return [Cell("best match", f"{n} released", repr(attack), partial(measure, n)) for n in pools]


def _collision(scenes: dict[str, Scene], hash: str) -> list[Cell]:
    def measure(arm: str, attack: FeatureCollision) -> dict[str, Any]:
        scene = scenes[arm]
        everyone = range(len(scene.targets))
        bits = scene.protected.bits if arm == "no key" else None
        informed = replace(attack, hash=hash, bits=bits)
        marked, originals = map(scene.marked, everyone), scene.originals[: len(everyone)]
        forged = forge(informed, list(marked), originals, scene.targets)
        return scene.judge(forged, scene.targets)

    attacks = {f"{levels:g} levels": FeatureCollision(budget=levels) for levels in BUDGETS}
    attacks |= {f"{psnr:g} dB": FeatureCollision(least_psnr=psnr) for psnr in LEAST_PSNR}
    return [
        Cell(f"collision, {arm}", budget, repr(attack), partial(measure, arm, attack))
        for arm in scenes
        for budget, attack in attacks.items()
    ]


def _same_scene(scenes: dict[str, Scene], seed: int) -> list[Cell]:
    scene = scenes["key"]
    everyone = range(len(scene.targets))

    def paste(attack: PastedObject) -> dict[str, Any]:
        marked = [scene.marked(index) for index in everyone]
        return scene.judge(forge(attack, marked, (), scene.targets), marked)

    def duplicate(change: Distortion) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        others = [change(scene.originals[index], rng) for index in everyone]
        side = working_size(scene.protected.watermark)[0]
        targets = [resized(picture, side) for picture in others]
        return scene.judge(scene.transplants(everyone, targets), targets)

    return [
        *(Cell("pasted object", name, repr(a), partial(paste, a)) for name, a in OBJECTS.items()),
        *(
            Cell("near-duplicate", name, repr(change), partial(duplicate, change))
            for name, change in DUPLICATES.items()
        ),
    ]


def _psnr(one: Picture8, other: Picture8) -> float:
    error = np.square(one.astype(np.float64) - other).mean()
    return float(10 * np.log10(255**2 / max(error, 1e-12)))


ADAPTIVE = Table(
    "Forgeries that pass, by adaptive attacker and budget",
    nested("attack", "budget"),
    (
        ("attack", "{attack}"),
        ("budget", "{budget}"),
        ("accepted", below("asr", RATE)),
        ("PSNR", "{psnr:.1f} dB"),
    ),
)


@measurement(
    "experiments adaptive",
    "watermark images hash fpr seed",
    click.option(
        "--only",
        multiple=True,
        type=click.Choice(ATTACKS),
        default=ATTACKS,
        help="An attacker; may be repeated.",
    ),
    count_option(30, "Targets of each attack."),
    work_option("adaptive"),
)
def adaptive_command(
    watermark: str,
    images: Path | None,
    hash: str,
    count: int,
    only: tuple[str, ...],
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """Attack the lock as someone who knows it: best match, feature collision, same scene."""
    photos = find_photos(images)
    with resumable(work):
        session = Session(Ledger(work), quiet=False)
        figures = adaptive(watermark, hash, photos, count, fpr, seed, session, only)
    config = {"watermark": watermark, "hash": hash, "targets": count, "photos": len(photos)}
    config["weights"] = weights_of(load_hash(hash))
    return Measured({**config, "fpr": fpr, "seed": seed}, figures, ADAPTIVE.markdown(figures))
