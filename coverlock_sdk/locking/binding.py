"""Embedding under the lock: the payload is bound to the code of the picture that carries it.

The hash at verification is that of the *marked* picture. Fixed-point binding, our addition to the
paper's section 4, embeds again until the code that was embedded is the code that will be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import CoverLockError, PluginError
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.hardening import MOST_COST, Hardener
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.plugin_calls import Networks


@dataclass(frozen=True)
class Marked:
    """A marked picture and what is known about it."""

    picture: Any
    """The picture, of the kind that was given."""
    verdict: Verdict
    """What verification says of the picture as it is now, rounded to its bit depth."""
    psnr: float
    rounds: int
    """How many embeddings were tried."""
    hash_errors: int
    """Bits in which the code of the marked picture differs from the code that was embedded."""
    code: Bits
    """The code that was embedded: XORed onto the message, it gives the payload."""


class Binder:
    """Marks pictures with the networks of a watermark and a hash, under the first key."""

    def __init__(
        self, networks: Networks, judge: Judge, rounds: int = 1, hardener: Hardener | None = None
    ) -> None:
        if rounds < 1:
            raise CoverLockError(f"a picture is marked in at least one round, not in {rounds}")
        self.networks, self.judge, self.format = networks, judge, judge.format
        self.rounds, self.hardener = rounds, hardener

    def bind(self, pictures: Sequence[Picture], messages: Bits) -> list[Marked]:
        """Mark each picture with its message; ``Marked.picture`` is a ``Picture`` here.

        Where the code of the marked picture differs from the code that was embedded, the original
        is marked anew with the new code, until it settles or repeats itself. The try with the
        lowest p-value is kept.
        """
        views = self.networks.views(pictures)
        codes = self.format.code(self.networks.hashed(views), self.judge.keys[0])
        best: dict[int, Marked] = {}
        tried: list[set[bytes]] = [set() for _ in pictures]
        unsettled = list(range(len(pictures)))
        for round_number in range(1, self.rounds + 1):
            if not unsettled:
                break
            moved = []
            for index, marked, code in self._round(
                pictures, views, messages, codes, unsettled, round_number
            ):
                tried[index].add(codes[index].tobytes())
                best[index] = _better(best.get(index), marked)
                if code.tobytes() not in tried[index]:
                    codes[index] = code
                    moved.append(index)
            unsettled = moved
        bound = [best[index] for index in range(len(pictures))]
        if self.hardener is None:
            return bound
        return [
            self._harden(self.hardener, marked, original, message)
            for marked, original, message in zip(bound, pictures, messages, strict=True)
        ]

    def seen(self, picture: Picture, message: Bits) -> tuple[Verdict, Bits]:
        """What verification will say of a picture, and the code that it will read."""
        decoded, hashed = self.logits([picture])
        key = self.judge.keys[0]
        [reading] = self.format.readings(decoded, hashed, key)
        return self.judge.judge_own(reading, message), self.format.code(hashed, key)[0]

    def logits(self, pictures: Sequence[Picture]) -> tuple[Logits, Logits]:
        """Payload logits and hash logits of pictures of any size."""
        views = self.networks.views(pictures)
        hashed = self.networks.hashed(views)  # before a careless decoder writes into the views
        return self.networks.decoded(views), hashed

    def _round(
        self,
        pictures: Sequence[Picture],
        views: Sequence[Images],
        messages: Bits,
        codes: Bits,
        rows: list[int],
        round_number: int,
    ) -> list[tuple[int, Marked, Bits]]:
        """Embed once into the pictures at ``rows``: each with the report on it and its new code."""
        key = self.judge.keys[0]
        payloads = self.format.payload(messages[rows], codes[rows])
        residuals = self.networks.residuals([views[row] for row in rows], payloads)
        marked = [pictures[row].with_residual(r) for row, r in zip(rows, residuals, strict=True)]
        decoded, hashed = self.logits(marked)
        _refuse_probabilities(decoded, payloads, self.networks.watermark.name)
        readings = self.format.readings(decoded, hashed, key)
        new_codes = self.format.code(hashed, key)
        return [
            (
                row,
                Marked(
                    picture=picture,
                    verdict=self.judge.judge_own(reading, messages[row]),
                    psnr=pictures[row].psnr(picture),
                    rounds=round_number,
                    hash_errors=int((code != codes[row]).sum()),
                    code=codes[row].copy(),
                ),
                code,
            )
            for row, picture, reading, code in zip(rows, marked, readings, new_codes, strict=True)
        ]

    def _harden(
        self, hardener: Hardener, marked: Marked, original: Picture, message: Bits
    ) -> Marked:
        """Move a marked picture so that the code it carries stays its code under distortions.

        The payload is in it already and stays as it is, so bits that binding could not settle
        are moved to where the payload wants them. Half a decibel is the most this may cost.
        """
        places, signs = self.format.wanted_signs(marked.code, self.judge.keys[0])
        allowed = 10 ** (-marked.psnr / 10) * (10 ** (hardener.settings.cost / 10) - 1)
        view = marked.picture.view(hardener.size)
        residual = hardener.residual(view, places, signs, allowed)
        for strength in (1.0, 0.9, 0.8, 0.6, 0.4):
            picture = marked.picture.with_residual(residual * np.float32(strength))
            psnr = original.psnr(picture)
            if psnr >= marked.psnr - MOST_COST:
                break
        else:
            return marked
        verdict, code = self.seen(picture, message)
        if marked.verdict.accepted and not verdict.accepted:
            return marked
        errors = int((code != marked.code).sum())
        return replace(marked, picture=picture, verdict=verdict, psnr=psnr, hash_errors=errors)


def _better(earlier: Marked | None, later: Marked) -> Marked:
    if earlier is None or later.verdict.p_value < earlier.verdict.p_value:
        return later
    return replace(earlier, rounds=later.rounds)


def _refuse_probabilities(decoded: Logits, payloads: Bits, plugin: str) -> None:
    """Refuse a decoder that answers from 0 to 1, so that every bit would be read as 1."""
    if decoded.size and (payloads == 0).any() and decoded.min() >= 0 and 0 < decoded.max() <= 1:
        raise PluginError(
            f"plugin '{plugin}' returned values from 0 to 1 from decode, which wants logits: "
            "return values above 0 for ones and below 0 for zeros, such as log(p / (1 - p))"
        )
