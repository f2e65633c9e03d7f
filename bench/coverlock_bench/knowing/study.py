"""How many released pictures each attacker needs, under each scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.knowing.codes import CodeAttack, Released, Vendor
from coverlock_bench.knowing.collusion import Collusion
from coverlock_bench.knowing.correlation import Correlation
from coverlock_bench.knowing.hardened import HardeningPushes, OneRotation
from coverlock_bench.knowing.hidden_salts import HiddenSalts
from coverlock_bench.knowing.known_map import KnownMap
from coverlock_bench.knowing.linear import Logistic, Ridge
from coverlock_bench.knowing.network import SmallNetwork
from coverlock_bench.knowing.queries import BlendWalk, PValueClimb, Service, nearest
from coverlock_bench.knowing.reembedding import Reembedding
from coverlock_bench.knowing.told_all import ToldAllButRotations
from coverlock_bench.ledger import Session
from coverlock_bench.photos import Picture8
from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keyed_codes import SaltedMap
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.plugin_calls import picture_logits

VICTIM = "victim"
LEARNERS: dict[str, tuple[CodeAttack, tuple[int, ...]]] = {
    "correlation": (Correlation(), (10, 12, 20, 100, 500, 2000, 8000)),
    "ridge regression": (Ridge(), (20, 100, 200, 500, 2000, 8000)),
    "logistic regression": (Logistic(), (200, 500, 2000)),
    "small network": (SmallNetwork(), (500, 2000)),
    "hidden salts": (HiddenSalts(), (500, 2000)),
    "re-embedding": (Reembedding(nearest=False), (500,)),
    "re-embedding, best match": (Reembedding(), (20, 100, 500, 2000, 8000)),
}
"""Attacks on codes, and from how many released pictures each is tried."""

TOLD = (500, 1000, 2000)
"""Released pictures of the bounds."""
ONE_ROTATION = "one rotation"
"""Scheme 2 as it would be without turns; only the bounds are measured."""

COLLUDING = {"30 identifiers": (30, 2), "250 identifiers": (250, 2)}


@dataclass(frozen=True)
class Study:
    """Hash logits of the photos that a vendor releases and that an attacker wants to pass off."""

    hash: ImageHash
    released: Logits
    targets: Logits
    bits: int
    fpr: float
    seed: int
    run: Session
    _kept: dict[tuple[str, int], tuple[Released, Any]] = field(default_factory=dict)

    def vendor(self, scheme: str) -> Vendor:
        """Who marks and verifies under ``scheme``."""
        kind = OneRotation if scheme == ONE_ROTATION else Judge
        key = key_of("scheme 2" if scheme == ONE_ROTATION else scheme, self.seed)
        return Vendor.of(key, self.bits, self.hash.calibration, self.fpr, kind)

    def rows(self, scheme: str) -> dict[str, dict[str, Any]]:
        """Forgeries accepted, by attack and number of released pictures."""
        vendor = self.vendor(scheme)
        if scheme == "keyless":
            known = KnownMap(vendor.judge, VICTIM)
            return {"known map": {"1": self._row(scheme, "known map", 1, lambda: known)}}
        found: dict[str, dict[str, Any]] = {}
        learners = {} if scheme == ONE_ROTATION else LEARNERS
        for name, (attack, counts) in learners.items():
            found[name] = self._counted(scheme, name, counts, attack)
        terms = vendor.judge.terms(VICTIM, vendor.judge.keys[0])
        if isinstance(terms.code_map, SaltedMap):
            told = ToldAllButRotations(vendor.judge.format, terms.code_map)
            found["told all but the rotations"] = self._counted(scheme, "told", TOLD, told)
            seen = HardeningPushes(vendor.judge.format, terms.code_map)
            found["sees hardening"] = self._counted(scheme, "sees hardening", TOLD, seen)
        if scheme == ONE_ROTATION:
            return found
        found["collusion"] = {
            name: self._row(scheme, name, 1, partial(self._collusion, scheme, *size))
            for name, size in COLLUDING.items()
        }
        stolen = KnownMap(vendor.judge, VICTIM)
        found["stolen key"] = {"1": self._row(scheme, "stolen key", 1, lambda: stolen)}
        return found

    def _counted(
        self, scheme: str, name: str, counts: Sequence[int], attack: CodeAttack
    ) -> dict[str, Any]:
        usable = [count for count in counts if count <= len(self.released)]
        return {str(n): self._row(scheme, name, n, lambda: attack) for n in usable}

    def _row(
        self, scheme: str, name: str, count: int, attack: Callable[[], CodeAttack]
    ) -> dict[str, Any]:
        asked = {"study": "key-attacks", "scheme": scheme, "attack": name, "released": count}
        asked |= {"bits": self.bits, "seed": self.seed, "targets": len(self.targets)}
        row: dict[str, Any] | None = self.run.ledger.recall(**asked)
        if row is None:
            row = self._measured(scheme, count, attack())
            self.run.ledger.keep(row, **asked)
        return row

    def _measured(self, scheme: str, count: int, attack: CodeAttack) -> dict[str, Any]:
        rng, vendor = np.random.default_rng([self.seed, count]), self.vendor(scheme)
        if (scheme, count) not in self._kept:
            chosen = rng.permutation(len(self.released))[:count]
            released = vendor.release(self.released[chosen], VICTIM, rng)
            self._kept[scheme, count] = released, rng.bit_generator.state
        released, rng.bit_generator.state = self._kept[scheme, count]
        payloads = attack.payloads(released, self.targets, rng)
        return summary(vendor.verify(payloads, self.targets, VICTIM, rng))

    def _collusion(self, scheme: str, identifiers: int, pictures: int) -> Collusion:
        rng, vendor = np.random.default_rng([self.seed, 1]), self.vendor(scheme)
        chosen = rng.permutation(len(self.released))[-identifiers * pictures :]
        pools = self.released[chosen].reshape(identifiers, pictures, -1)
        return Collusion(
            [vendor.release(pool, f"colluder {row}", rng) for row, pool in enumerate(pools)]
        )


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """How many forgeries were accepted, and how near they came."""
    agreements = [verdict.agreement for verdict in verdicts]
    accepted = sum(verdict.accepted for verdict in verdicts)
    return rate(accepted, len(verdicts)) | {"agreement": float(np.mean(agreements))}


def query_rows(
    study: Study, scheme: str, sources: list[Picture8], targets: list[Picture8], budget: int
) -> dict[str, Any]:
    """Forgeries accepted by services that answer, and the queries they took; codes alone."""
    attacks: dict[str, PValueClimb | BlendWalk]
    attacks = {"p-values": PValueClimb(), "decisions": BlendWalk()}
    return {
        name: _queried(study, scheme, attack, sources, targets, budget)
        for name, attack in attacks.items()
    }


def _queried(
    study: Study,
    scheme: str,
    attack: PValueClimb | BlendWalk,
    sources: list[Picture8],
    targets: list[Picture8],
    budget: int,
) -> dict[str, Any]:
    asked = {"study": "key-attacks", "scheme": scheme, "attack": repr(attack), "budget": budget}
    asked |= {"bits": study.bits, "seed": study.seed, "targets": len(targets)}
    row: dict[str, Any] | None = study.run.ledger.recall(**asked)
    if row is not None:
        return row
    rng, vendor = np.random.default_rng(study.seed), study.vendor(scheme)
    released = vendor.release(picture_logits(study.hash, sources), VICTIM, rng)
    forged, used = 0, []
    for target in study.run.steps(targets, f"{scheme}, {attack}"):
        wanted = picture_logits(study.hash, [target])[0]
        source = nearest(released, wanted)
        ask = _asking(study, vendor, sources[source], target)
        service = Service(ask, budget)
        passed = attack.forged(service, released.payloads[source], rng)
        forged += passed
        used += [service.used] if passed else []
    row = rate(forged, len(targets)) | {"queries": float(np.median(used)) if used else None}
    study.run.ledger.keep(row | {"budget": budget}, **asked)
    return row | {"budget": budget}


def _asking(
    study: Study, vendor: Vendor, source: Picture8, target: Picture8
) -> Callable[[float, Bits], Verdict]:
    """Verification of blends of two pictures, into which payloads are put without error."""
    hashes: dict[float, Logits] = {}

    def ask(blend: float, payload: Bits) -> Verdict:
        if blend not in hashes:
            mixed = (1 - blend) * source.astype(np.float32) + blend * target
            hashes[blend] = picture_logits(study.hash, [np.rint(mixed).astype(np.uint8)])
        shown = 2 * payload[None].astype(np.float32) - 1
        return vendor.judge.verify(shown, hashes[blend], VICTIM)[0]

    return ask
