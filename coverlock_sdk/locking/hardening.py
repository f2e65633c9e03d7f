"""Hardening: move a marked picture a little, so that distortions do not move its code.

Ours, not the paper's. The embedder may change the picture, so it can push those numbers whose signs
lock the message away from zero. For a linear code the least change that does it is the solution of
a small linear system.

Margins help a forger too, because he aims at the same bits, so they are kept small.
"""

from __future__ import annotations

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.threads import one_thread

MOST_COST = 0.5
"""Decibels that a marked picture may lose."""

MARGIN = 0.3
"""How far from zero numbers are to be, in multiples of the picture's typical one."""


@one_thread
def hardening(
    code: OctaveCode, seen: Images, directions: Logits, signs: Logits, mean_square: float
) -> Images:
    """The change (3, 128, 128) of a picture, as the code sees it, that gives bits their margins.

    The code times ``directions`` (dimensions, bits) is to have ``signs``. The change has at most
    ``mean_square``.
    """
    shown = code.logits(seen[None])[0] @ directions
    margin = MARGIN * np.sqrt(np.square(shown).mean())
    lacks = signs * np.maximum(margin - signs * shown, 0)
    products = directions.T @ code.gram @ directions
    products += 1e-6 * np.trace(products) / len(products) * np.eye(len(products))
    steps = np.linalg.solve(products, lacks).astype(np.float32)
    change = code.pull_back(directions @ steps)
    longest = (mean_square * change.size) ** 0.5
    length = max(float(np.linalg.norm(change)), 1e-12)
    return change * np.float32(min(1.0, longest / length))
