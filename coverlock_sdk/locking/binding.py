"""Embedding under the lock: the payload is bound to the code of the picture that carries it.

The hash at verification is that of the *marked* picture. Fixed-point binding, our addition to the
paper's section 4, embeds again until the code that was embedded is the code that will be read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import CoverLockError, ExposedKeyWarning, PluginError, UnhardenedWarning
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.locking.hardening import MOST_COST, Hardener, Wanted
from coverlock_sdk.locking.judging import Judge, Terms
from coverlock_sdk.locking.lookalikes import Census, Lookalikes
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.plugin_calls import Networks

if TYPE_CHECKING:
    from coverlock_sdk.hashing.own_crowd import Trace

REHEARSED = 0.75
"""The share of a picture's area that is left of it when salts are compared."""


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
    lookalikes: Lookalikes | None = None
    """How many other pictures would pass for it; None where there is no hash."""


class Binder:
    """Marks pictures with the networks of a watermark and a hash, under the first key.

    With ``psnr``, marks are made as strong or as weak as pictures of that many decibels have. Each
    picture is compared with those before it; ``crowd`` is a file that keeps their codes.
    """

    def __init__(
        self,
        networks: Networks,
        judge: Judge,
        rounds: int = 1,
        hardener: Hardener | None = None,
        psnr: float | None = None,
        crowd: str | Path | None = None,
    ) -> None:
        if rounds < 1:
            raise CoverLockError(f"a picture is marked in at least one round, not in {rounds}")
        if psnr is not None and not 20 <= psnr <= 60:
            raise CoverLockError(f"{psnr} dB is not a quality to aim at: choose from 20 to 60")
        self.networks, self.judge, self.format = networks, judge, judge.format
        self.rounds, self.hardener, self.psnr = rounds, hardener, psnr
        self.census = Census.of(networks.hash, judge, crowd)

    def bind(self, pictures: Sequence[Picture], messages: Sequence[str | Bits]) -> list[Marked]:
        """Mark each picture with its message; ``Marked.picture`` is a ``Picture`` here.

        Where the code of the marked picture differs from the code that was embedded, the original
        is marked anew with the new code, until it settles or repeats itself. A picture that is
        hardened is marked anew only if it would not be accepted, and one that even then is not
        accepted is tried without hardening. The lowest p-value wins.
        """
        works = self._begin(pictures, messages)
        for kind in {work.terms.kind for work in works}:
            if advice := self.judge.advice(kind):
                warnings.warn(advice, ExposedKeyWarning, stacklevel=4)
        self._settle(works, self._usable_hardener())
        if self.hardener is not None:
            self._settle([work for work in works if not work.result.verdict.accepted], None)
        return [replace(work.result, lookalikes=work.lookalikes) for work in works]

    def remember(self, pictures: Sequence[Picture]) -> list[Trace]:
        """Compare pictures that are marked with these, too; what is kept of each."""
        if self.census is None:
            return []
        return self.census.remember(pictures, self.networks.hashed(self.networks.views(pictures)))

    def _settle(self, works: Sequence[_Work], hardener: Hardener | None) -> None:
        """Embed into each picture until its code settles or repeats itself.

        Tries are made at the size that the networks see, and the best one is carried to the full
        picture. A hardened picture is carried at once, and not tried again if it is accepted: what
        its code lacks, it will not lack much longer.
        """
        unsettled = works
        for work in works:
            work.begin()
        for round_number in range(1, self.rounds + 1):
            if not unsettled:
                break
            self._embed(unsettled, hardener, round_number)
            for work in unsettled:
                if hardener is not None or work.settled or round_number == self.rounds:
                    self._carry(work)
            unsettled = [work for work in unsettled if not work.settled]
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
        return self.networks.logits(self.networks.views(pictures))

    def _begin(self, pictures: Sequence[Picture], messages: Sequence[str | Bits]) -> list[_Work]:
        """What there is to do, each picture with a salt and the code that it has now."""
        views = self.networks.views(pictures)
        works, all_hashed = [], self.networks.hashed(views)
        traces = self.census.remember(pictures, all_hashed) if self.census else []
        for row, hashed in enumerate(all_hashed):
            terms = self.judge.terms(messages[row], self.judge.keys[0])
            salt = self._salt(views[row], hashed, terms)
            code = self.format.code(hashed[None], terms.code_map, salt)[0]
            alike = (
                self.census.lookalikes(hashed, terms, salt, traces[row]) if self.census else None
            )
            works.append(_Work(pictures[row], views[row], terms, salt, code, alike))
        return works

    def _salt(self, view: Images, hashed: Logits, terms: Terms) -> int:
        """The salt under which the code is the stablest, as it is and in a crop.

        Crops turn over the most bits.
        """
        if terms.code_map.salts == 1:
            return 0
        cropped = self.networks.hashed([_cropped(view)])
        return self.format.stablest_salt(np.stack([hashed, *cropped]), terms.code_map)

    def _embed(self, works: Sequence[_Work], hardener: Hardener | None, round_number: int) -> None:
        """Embed once into each view, and note which code would be read from it.

        A hardened picture carries the code that it was hardened for, up to what carrying it shows.
        """
        messages = np.stack([work.terms.message for work in works])
        payloads = self.format.payload(messages, np.stack([work.code for work in works]))
        residuals = [
            (self._strength(work.original, residual) * residual,)
            for work, residual in zip(
                works, self.networks.residuals([w.view for w in works], payloads), strict=True
            )
        ]
        if hardener is not None:
            for row, work in enumerate(works):
                hardened = self._hardened(hardener, work, *residuals[row])
                work.note(_Try(hardened, payloads[row], work.code, 0), round_number, work.code)
            return
        hashed = self.networks.hashed(
            [work.foreseen(*added) for work, added in zip(works, residuals, strict=True)]
        )
        for row, work in enumerate(works):
            [code] = self.format.code(hashed[row : row + 1], work.terms.code_map, work.salt)
            errors = int((code != work.code).sum())
            work.note(_Try(residuals[row], payloads[row], work.code, errors), round_number, code)

    def _strength(self, picture: Picture, residual: Images) -> np.float32:
        """What to multiply a residual by, so that the marked picture has the quality aimed at."""
        if self.psnr is None:
            return np.float32(1)
        allowed = 10 ** (-self.psnr / 10) - picture.rounding
        return np.float32((allowed / max(picture.energy_of(residual), 1e-12)) ** 0.5)

    def _hardened(self, hardener: Hardener, work: _Work, residual: Images) -> tuple[Images, ...]:
        """A mark, and what moves the picture so that its code stays under distortions.

        The payload is in the mark already and stays as it is, so bits that embedding has moved are
        moved back to where the payload wants them. Half a decibel is the most this may cost.
        """
        foreseen, picture = work.foreseen(residual), work.original
        size = self.networks.watermark.native_size or hardener.size
        energy = picture.energy_of(residual) + picture.rounding
        move = hardener.residual(resample(foreseen, size), _wanted(work, energy, hardener))
        for strength in (1.0, 0.9, 0.8, 0.6, 0.4):
            part = move * np.float32(strength)
            added = (residual + part,) if part.shape == residual.shape else (residual, part)
            spent = sum(map(picture.energy_of, added)) + picture.rounding
            if spent <= energy * 10 ** (MOST_COST / 10):
                return (self._strength(picture, added[0]) * added[0], *added[1:])
        return (residual,)

    def _carry(self, work: _Work) -> None:
        """Put the best try into the full picture, and note what verification says of it.

        Its code may differ from the one foreseen, in bits that rounding flips. If that code was
        tried as well, it is carried too.
        """
        best = work.best
        while best is not None:
            picture = work.original
            for residual in best.residuals:
                picture = picture.with_residual(residual)
            decoded, hashed = self.logits([picture])
            if not self.networks.watermark.hard_bits:  # which may all be ones
                _refuse_probabilities(decoded, best.payload, self.networks.watermark.name)
            verdict, work.code = self._judged(decoded, hashed, work.terms, work.salt)
            if work.marked is None or verdict.p_value < work.marked.verdict.p_value:
                work.marked = Marked(
                    picture=picture,
                    verdict=verdict,
                    psnr=work.original.psnr(picture),
                    rounds=work.rounds,
                    hash_errors=int((work.code != best.code).sum()),
                    code=best.code,
                    salt=work.salt,
                )
            work.tried[best.code.tobytes()] = None
            best = work.tried.get(work.code.tobytes())


def _cropped(view: Images) -> Images:
    """The middle of a view (3, H, W)."""
    height, width = (round(side * REHEARSED**0.5) for side in view.shape[1:])
    top, left = (view.shape[1] - height) // 2, (view.shape[2] - width) // 2
    return view[:, top : top + height, left : left + width]


def _wanted(work: _Work, energy: float, hardener: Hardener) -> Wanted:
    """The signs that the code in a marked picture asks for, at what its fidelity allows."""
    code_map = work.terms.code_map
    return Wanted(
        directions=code_map.selected(np.eye(CODE_BITS, dtype=np.float32), work.salt),
        signs=2 * (work.code ^ code_map.mask(work.salt)).astype(np.float32) - 1,
        mean_square=energy * (10 ** (hardener.settings.cost / 10) - 1),
    )


class _Try(NamedTuple):
    """One embedding at the size that the networks see."""

    residuals: tuple[Images, ...]
    """What is added to the picture: the mark, and apart from it what hardens it, if need be."""
    payload: Bits
    code: Bits
    errors: int
    """Bits in which the code foreseen differs from the one embedded."""


@dataclass
class _Work:
    """One picture on its way to being marked."""

    original: Picture
    view: Images
    terms: Terms
    salt: int
    own_code: Bits
    """The code of the original."""
    lookalikes: Lookalikes | None
    code: Bits = field(init=False)
    """The code that is embedded next."""
    tried: dict[bytes, _Try | None] = field(init=False)
    """The tries by code; None for one that was carried to the full picture."""
    rounds: int = 0
    marked: Marked | None = None

    def begin(self) -> None:
        """Start from the code of the original."""
        self.code, self.tried = self.own_code, {}

    @property
    def result(self) -> Marked:
        """The marked picture; there is one after the last round."""
        assert self.marked is not None
        return replace(self.marked, rounds=self.rounds)

    @property
    def best(self) -> _Try | None:
        """The try with the fewest errors that was not carried yet."""
        left = [attempt for attempt in self.tried.values() if attempt is not None]
        return min(left, key=lambda attempt: attempt.errors, default=None)

    @property
    def settled(self) -> bool:
        """Whether the next code to embed was tried before: it settled, or repeats itself."""
        return self.code.tobytes() in self.tried

    def foreseen(self, residual: Images) -> Images:
        """What will be seen of the picture with ``residual`` in it."""
        if self.original.alpha is not None:
            return self.original.with_residual(residual).view(self.view.shape[1:])
        seen: Images = np.clip(self.view + self.original.seen_of(residual), 0, 1)
        if self.original.size == self.view.shape[1:] and self.original.pixels.dtype == np.uint8:
            seen = np.rint(seen * np.float32(255)) / np.float32(255)
        return seen

    def note(self, attempt: _Try, round_number: int, code: Bits) -> None:
        """Keep a try, and go on with the ``code`` of the marked picture."""
        self.tried[attempt.code.tobytes()] = attempt
        self.rounds, self.code = round_number, code


def _refuse_probabilities(decoded: Logits, payload: Bits, plugin: str) -> None:
    """Refuse a decoder that answers from 0 to 1, so that every bit would be read as 1."""
    if decoded.size and (payload == 0).any() and decoded.min() >= 0 and 0 < decoded.max() <= 1:
        raise PluginError(
            f"plugin '{plugin}' returned values from 0 to 1 from decode, which wants logits: "
            "return values above 0 for ones and below 0 for zeros, such as log(p / (1 - p))"
        )
