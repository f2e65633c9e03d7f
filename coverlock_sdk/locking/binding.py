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
from coverlock_sdk.errors import CoverLockError, ExposedKeyWarning, PluginError, UnhardenedWarning
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.hardening import MOST_COST, Hardener, Wanted
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
        lowest p-value is kept. A picture that is hardened is marked anew only if it
        would not be accepted, and one that even then is not accepted is tried without hardening.
        """
        works = self._begin(pictures, messages)
        for kind in {work.terms.kind for work in works}:
            if advice := self.judge.advice(kind):
                warnings.warn(advice, ExposedKeyWarning, stacklevel=4)
        self._settle(works, self._usable_hardener())
        if self.hardener is not None:
            self._settle([work for work in works if not work.result.verdict.accepted], None)
        return [work.result for work in works]

    def _settle(self, works: Sequence[_Work], hardener: Hardener | None) -> None:
        """Embed into each original until its code settles or repeats itself.

        A hardened picture that is accepted is not tried again: what its code lacks, it will not
        lack much longer.
        """
        unsettled = works
        for work in works:
            work.begin()
        for round_number in range(1, self.rounds + 1):
            if not unsettled:
                break
            self._embed(unsettled, hardener, round_number)
            unsettled = [work for work in unsettled if work.code.tobytes() not in work.tried]
            if hardener is not None:
                unsettled = [work for work in unsettled if not work.result.verdict.accepted]

    def _usable_hardener(self) -> Hardener | None:
        """The hardener, unless the hash has no gradients, which is said once."""
        if self.hardener is not None and not self.hardener.possible:
            warnings.warn(self.hardener.refusal, UnhardenedWarning, stacklevel=5)
            self.hardener = None
        return self.hardener

    def seen(self, picture: Picture, terms: Terms, salt: int) -> tuple[Verdict, Bits]:
        """What verification will say of a picture, and the code that it will read."""
        return self._judged(*self.logits([picture]), terms, salt)

    def _judged(
        self, decoded: Logits, hashed: Logits, terms: Terms, salt: int
    ) -> tuple[Verdict, Bits]:
        """The verdict on one picture (1, ...) under its own salt, and the code that it shows."""
        [reading] = self.format.readings(decoded, hashed, terms.code_map, salt, terms.key)
        [code] = self.format.code(hashed, terms.code_map, salt)
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

    def _embed(self, works: Sequence[_Work], hardener: Hardener | None, round_number: int) -> None:
        """Embed once into each original, and note what verification would say of it."""
        messages = np.stack([work.terms.message for work in works])
        payloads = self.format.payload(messages, np.stack([work.code for work in works]))
        residuals = self.networks.residuals([work.view for work in works], payloads)
        marked = [work.original.with_residual(r) for work, r in zip(works, residuals, strict=True)]
        if hardener is not None:
            marked = self._hardened(hardener, works, marked)
        decoded, hashed = self.logits(marked)
        _refuse_probabilities(decoded, payloads, self.networks.watermark.name)
        for row, (work, picture) in enumerate(zip(works, marked, strict=True)):
            rows = slice(row, row + 1)
            verdict, code = self._judged(decoded[rows], hashed[rows], work.terms, work.salt)
            work.note(
                Marked(
                    picture=picture,
                    verdict=verdict,
                    psnr=work.original.psnr(picture),
                    rounds=round_number,
                    hash_errors=int((code != work.code).sum()),
                    code=work.code,
                    salt=work.salt,
                ),
                code,
            )

    def _hardened(
        self, hardener: Hardener, works: Sequence[_Work], marked: Sequence[Picture]
    ) -> list[Picture]:
        """Marked pictures, moved so that the code in them stays theirs under distortions.

        The payload is in them already and stays as it is, so bits that embedding has moved are
        moved back to where the payload wants them.
        """
        size = self.networks.watermark.native_size or hardener.size
        hardened = []
        for work, picture in zip(works, marked, strict=True):
            psnr = work.original.psnr(picture)
            residual = hardener.residual(picture.view(size), _wanted(work, psnr, hardener))
            hardened.append(_moved(work.original, picture, psnr, residual))
        return hardened


@dataclass
class _Work:
    """One picture on its way to being marked."""

    original: Picture
    view: Images
    terms: Terms
    salt: int
    own_code: Bits
    """The code of the original."""
    code: Bits = field(init=False)
    """The code that is embedded next."""
    tried: set[bytes] = field(init=False)
    best: Marked | None = None

    def begin(self) -> None:
        """Start from the code of the original."""
        self.code, self.tried = self.own_code, set()

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


def _wanted(work: _Work, psnr: float, hardener: Hardener) -> Wanted:
    """The signs that the code in a marked picture asks for, at what its fidelity allows."""
    code_map = work.terms.code_map
    return Wanted(
        directions=code_map.selected(np.eye(CODE_BITS, dtype=np.float32), work.salt),
        signs=2 * (work.code ^ code_map.mask(work.salt)).astype(np.float32) - 1,
        mean_square=10 ** (-psnr / 10) * (10 ** (hardener.settings.cost / 10) - 1),
    )


def _moved(original: Picture, marked: Picture, psnr: float, residual: Images) -> Picture:
    """A marked picture with as much of ``residual`` as may be: half a decibel at most."""
    for strength in (1.0, 0.9, 0.8, 0.6, 0.4):
        moved = marked.with_residual(residual * np.float32(strength))
        if original.psnr(moved) >= psnr - MOST_COST:
            return moved
    return marked


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
