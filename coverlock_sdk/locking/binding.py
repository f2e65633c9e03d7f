"""Embedding under the lock: the payload is bound to the code of the picture that carries it.

The hash at verification is that of the *marked* picture. Fixed-point binding, our addition to the
paper's section 4, embeds again until the code that was embedded is the code that will be read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import CoverLockError, ExposedKeyWarning, PluginError
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.hardening import MOST_COST, Hardener
from coverlock_sdk.locking.judging import Judge, Terms
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
    salt: int = 0
    """The salt it was marked under; verification tries all of them."""


class Binder:
    """Marks pictures with the networks of a watermark and a hash, under the first key."""

    def __init__(
        self, networks: Networks, judge: Judge, rounds: int = 1, hardener: Hardener | None = None
    ) -> None:
        if rounds < 1:
            raise CoverLockError(f"a picture is marked in at least one round, not in {rounds}")
        self.networks, self.judge, self.format = networks, judge, judge.format
        self.rounds, self.hardener = rounds, hardener

    def bind(self, pictures: Sequence[Picture], messages: Sequence[str | Bits]) -> list[Marked]:
        """Mark each picture with its message; ``Marked.picture`` is a ``Picture`` here.

        Where the code of the marked picture differs from the code that was embedded, the original
        is marked anew with the new code, until it settles or repeats itself. The try with the
        lowest p-value is kept.
        """
        works = self._begin(pictures, messages)
        for kind in {work.terms.kind for work in works}:
            if advice := self.judge.advice(kind):
                warnings.warn(advice, ExposedKeyWarning, stacklevel=4)
        unsettled = works
        for round_number in range(1, self.rounds + 1):
            if not unsettled:
                break
            self._embed(unsettled, round_number)
            unsettled = [work for work in unsettled if work.code.tobytes() not in work.tried]
        if self.hardener is not None:
            for work in works:
                work.best = self._harden(self.hardener, work)
        return [work.result for work in works]

    def seen(self, picture: Picture, terms: Terms, salt: int) -> tuple[Verdict, Bits]:
        """What verification will say of a picture, and the code that it will read."""
        decoded, hashed = self.logits([picture])
        [reading] = self.format.readings(decoded, hashed, terms.code_map, salt, terms.key)
        code = self.format.code(hashed, terms.code_map, salt)[0]
        [tries] = self.format.tries(hashed, terms.code_map, [salt])
        return self.judge.judge_own(reading, terms.message, tries), code

    def logits(self, pictures: Sequence[Picture]) -> tuple[Logits, Logits]:
        """Payload logits and hash logits of pictures of any size."""
        views = self.networks.views(pictures)
        hashed = self.networks.hashed(views)  # before a careless decoder writes into the views
        return self.networks.decoded(views), hashed

    def _begin(self, pictures: Sequence[Picture], messages: Sequence[str | Bits]) -> list[_Work]:
        """What there is to do, each picture with a salt and the code that it has now."""
        views = self.networks.views(pictures)
        works = []
        for row, hashed in enumerate(self.networks.hashed(views)):
            terms = self.judge.terms(messages[row], self.judge.keys[0])
            salt = self.format.stablest_salt(hashed[None], terms.code_map)
            code = self.format.code(hashed[None], terms.code_map, salt)[0]
            works.append(_Work(pictures[row], views[row], terms, salt, code))
        return works

    def _embed(self, works: Sequence[_Work], round_number: int) -> None:
        """Embed once into each original, and note what verification would say of it."""
        messages = np.stack([work.terms.message for work in works])
        payloads = self.format.payload(messages, np.stack([work.code for work in works]))
        residuals = self.networks.residuals([work.view for work in works], payloads)
        marked = [work.original.with_residual(r) for work, r in zip(works, residuals, strict=True)]
        decoded, hashed = self.logits(marked)
        _refuse_probabilities(decoded, payloads, self.networks.watermark.name)
        for row, (work, picture) in enumerate(zip(works, marked, strict=True)):
            rows, code_map = slice(row, row + 1), work.terms.code_map
            [reading] = self.format.readings(
                decoded[rows], hashed[rows], code_map, work.salt, work.terms.key
            )
            [code] = self.format.code(hashed[rows], code_map, work.salt)
            [tries] = self.format.tries(hashed[rows], code_map, [work.salt])
            work.note(
                Marked(
                    picture=picture,
                    verdict=self.judge.judge_own(reading, work.terms.message, tries),
                    psnr=work.original.psnr(picture),
                    rounds=round_number,
                    hash_errors=int((code != work.code).sum()),
                    code=work.code,
                    salt=work.salt,
                ),
                code,
            )

    def _harden(self, hardener: Hardener, work: _Work) -> Marked:
        """Move a marked picture so that the code it carries stays its code under distortions.

        The payload is in it already and stays as it is, so bits that binding could not settle
        are moved to where the payload wants them. Half a decibel is the most this may cost.
        """
        marked, code_map = work.result, work.terms.code_map
        directions = code_map.selected(np.eye(CODE_BITS, dtype=np.float32), work.salt)
        signs = 2 * (marked.code ^ code_map.mask(work.salt)).astype(np.float32) - 1
        allowed = 10 ** (-marked.psnr / 10) * (10 ** (hardener.settings.cost / 10) - 1)
        view = marked.picture.view(hardener.size)
        residual = hardener.residual(view, directions, signs, allowed)
        for strength in (1.0, 0.9, 0.8, 0.6, 0.4):
            picture = marked.picture.with_residual(residual * np.float32(strength))
            psnr = work.original.psnr(picture)
            if psnr >= marked.psnr - MOST_COST:
                break
        else:
            return marked
        verdict, code = self.seen(picture, work.terms, work.salt)
        if marked.verdict.accepted and not verdict.accepted:
            return marked
        errors = int((code != marked.code).sum())
        return replace(marked, picture=picture, verdict=verdict, psnr=psnr, hash_errors=errors)


@dataclass
class _Work:
    """One picture on its way to being marked."""

    original: Picture
    view: Images
    terms: Terms
    salt: int
    code: Bits
    """The code that is embedded next."""
    tried: set[bytes] = field(default_factory=set)
    best: Marked | None = None

    @property
    def result(self) -> Marked:
        """The best try; there is one after the first round."""
        assert self.best is not None
        return self.best

    def note(self, marked: Marked, code: Bits) -> None:
        """Keep the better of two tries, and go on with the ``code`` of the marked picture."""
        self.best = _better(self.best, marked)
        self.tried.add(self.code.tobytes())
        self.code = code


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
