"""Query attackers: a public encoder, one released picture, and a service that answers.

A service that shows p-values lets the attacker find the payload bit by bit. Where it says accepted
or rejected, the attacker walks from the released picture to the target in small steps of blending.
Each step is small enough for the service to say which payload bits have gone wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from coverlock_bench.knowing.codes import Released
from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.locking.verdict import Verdict

Ask = Callable[[float, Bits], Verdict]
"""What the service says of a blend (0 the released picture, 1 the target) with a payload."""


class OutOfQueriesError(Exception):
    """The budget is spent."""


@dataclass
class Service:
    """Counts queries and stops at the budget."""

    ask: Ask
    budget: int
    used: int = field(default=0)

    def __call__(self, blend: float, payload: Bits) -> Verdict:
        """One query."""
        if self.used >= self.budget:
            raise OutOfQueriesError
        self.used += 1
        return self.ask(blend, payload)


@dataclass(frozen=True)
class PValueClimb:
    """Has the encoder, and a service that shows p-values: keeps every flip that lowers them."""

    def forged(self, service: Service, start: Bits, rng: np.random.Generator) -> bool:
        """Whether the target is accepted before the budget is spent."""
        payload = rng.integers(0, 2, len(start), dtype=np.uint8)
        try:
            best = service(1.0, payload)
            while not best.accepted:
                for place in rng.permutation(len(payload)):
                    changed = flipped(payload, int(place))
                    verdict = service(1.0, changed)
                    if verdict.p_value < best.p_value:
                        payload, best = changed, verdict
                    if best.accepted:
                        break
        except OutOfQueriesError:
            return False
        return True


@dataclass(frozen=True)
class BlendWalk:
    """Has the encoder, one released picture, and a service that says accepted or rejected."""

    step: float = 0.05
    least: float = 0.005

    def forged(self, service: Service, start: Bits, rng: np.random.Generator) -> bool:
        """Whether the target is accepted before the budget is spent."""
        payload, blend, step = start, 0.0, self.step
        try:
            while blend < 1:
                ahead = min(1.0, blend + step)
                if service(ahead, payload).accepted:
                    blend = ahead
                    continue
                mended = self._mended(service, blend, payload, rng)
                if (mended == payload).all():
                    step = max(step / 2, self.least)
                else:
                    payload, step = mended, self.step
        except OutOfQueriesError:
            return False
        return True

    def _mended(
        self, service: Service, blend: float, payload: Bits, rng: np.random.Generator
    ) -> Bits:
        """The payload with wrong bits put right, where ``payload`` is still accepted.

        Bits are spoilt until the service rejects. From there a flip is accepted only if it puts a
        wrong bit right: one of those just spoilt, or one that was wrong before.
        """
        order = [int(place) for place in rng.permutation(len(payload))]
        edge = payload
        spoilt: list[int] = []
        for place in order:
            changed = flipped(edge, place)
            if not service(blend, changed).accepted:
                last = place
                break
            edge, spoilt = changed, [*spoilt, place]
        else:
            return payload
        beyond, mended = flipped(edge, last), payload
        for place in order:
            if place == last:
                continue
            if service(blend, flipped(beyond, place)).accepted:
                # The flip undoes a spoilt right bit, or mends one that was wrong before.
                mended = mended if place in spoilt else flipped(mended, place)
            elif place in spoilt:
                mended = flipped(mended, place)  # spoiling it was no harm: it had been wrong
        return mended


def flipped(payload: Bits, place: int) -> Bits:
    """The payload with one bit turned over."""
    changed = payload.copy()
    changed[place] ^= 1
    return changed


def nearest(released: Released, target: Logits) -> int:
    """The released picture whose public hash is most like the target's (256,)."""
    return int((released.directions @ target).argmax())
