"""How far a hash tells pictures of one kind apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.training.hashes.figures import ACCEPTED, Codes, pair_agreement

SELECTED = 64
NEEDED = 51
"""Matches among ``SELECTED`` bits at which a picture is accepted at a rate of 1e-6."""


def kind_figures(sets: Mapping[str, Sequence[Codes]]) -> dict[str, dict[str, float]]:
    """By kind, over all pairs within each set of codes (N, 256): how alike different pictures are.

    ``accepted_64`` is the share of pairs that pass for one another when a random 64 of the 256
    bits are compared, in the mean over all selections.
    """
    figures = {}
    for name, groups in sets.items():
        agreement = np.concatenate([pair_agreement(codes) for codes in groups])
        matches = np.rint(agreement * CODE_BITS).astype(np.int64)
        figures[name] = {
            "pairs": len(agreement),
            "mean": float(agreement.mean()),
            "max": float(agreement.max()),
            "accepted_64": float(selection_odds()[matches].mean()),
            "accepted_256": float((matches >= ACCEPTED).mean()),
        }
    return figures


@lru_cache(maxsize=1)
def selection_odds() -> npt.NDArray[np.float64]:
    """For m of 256 equal bits: the odds that ``NEEDED`` of ``SELECTED`` random ones are equal."""
    whole = math.comb(CODE_BITS, SELECTED)
    return np.array(
        [
            sum(
                math.comb(equal, hit) * math.comb(CODE_BITS - equal, SELECTED - hit)
                for hit in range(NEEDED, SELECTED + 1)
            )
            / whole
            for equal in range(CODE_BITS + 1)
        ]
    )
