"""Embedding under the lock: the payload is bound to the code of the picture that carries it.

Verification reads the code of the *marked* picture. Hardening changes the picture so that it keeps
the embedded code. Without hardening, marking is repeated until the code is the embedded one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import CoverLockError, PluginError, UnregisteredWarning
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.hardening import MOST_COST, Hardener, WantedCode, hardener_of
from coverlock_sdk.locking.lock import FAINT, Lock, Terms
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.plugin_calls import Networks

MOST_PSNR = 50
"""The highest PSNR to aim at: above it, rounding to 8 bits removes most of a mark."""

ROUNDS = 4
"""How often a picture is marked, at most, until its code settles."""


@dataclass(frozen=True)
class Marked:
    """A marked picture and what is known about it."""

    picture: Any
    """The picture, as the kind that was passed in."""
    verdict: Verdict
    """The verdict on the marked picture, rounded to its bit depth."""
    psnr: float
    code: Bits
    """The code that was embedded: XORed onto the message, it gives the payload."""
    salt: int = 0
    """The salt that it was marked under; verification tries all of them."""
    strength: float = 1.0
    """How much detail the code finds in the picture; a typical photo has about 1."""
    alike: tuple[str, float] | None = None
    """With a registry: an earlier picture that this one could pass for, and their likeness."""

    @property
    def is_faint(self) -> bool:
        """Whether the picture is too empty to be verified."""
        return self.strength < FAINT


class Binder:
    """Marks pictures with the networks of a watermark and a hash, under the first key."""

    def __init__(
        self,
        networks: Networks,
        lock: Lock,
        psnr: float | None = None,
        *,
        harden: bool = True,
        rounds: int = ROUNDS,
    ) -> None:
        if psnr is not None and not 20 <= psnr <= MOST_PSNR:
            raise CoverLockError(
                f"{psnr} dB is not a quality to aim at: choose from 20 to {MOST_PSNR}, because "
                "rounding to 8 bits swallows fainter marks"
            )
        if rounds < 1:
            raise CoverLockError(f"a picture is marked in at least one round, not in {rounds}")
        self.networks, self.lock, self.psnr, self.rounds = networks, lock, psnr, rounds
        self.harden = harden
        self._warned = False

    @cached_property
    def _hardener(self) -> Hardener | None:
        """The hardener, if pictures should be hardened and the hash allows it."""
        return hardener_of(self.lock.hash) if self.harden and self.lock.hash else None

    def bind(self, pictures: Sequence[Picture], messages: Sequence[str | Bits]) -> list[Marked]:
        """Mark each picture with its message; ``Marked.picture`` is a ``Picture`` here.

        If a hardened picture is not accepted, it is also marked without hardening, and the lower
        p-value wins.
        """
        self._warn_if_unregistered()
        works = self._begin(pictures, messages)
        self._settle(works, self._hardener)
        if self._hardener:
            self._settle([work for work in works if not work.result.verdict.accepted], None)
        return [self._finished(work) for work in works]

    def _finished(self, work: _Work) -> Marked:
        """The result, after the registry has stored it."""
        lock, terms, marked = self.lock, work.terms, work.result
        if lock.registry is None or lock.hash is None or terms.key is None or terms.name is None:
            return marked
        if marked.is_faint or not marked.verdict.accepted:
            return marked
        [description] = self.networks.described(self.networks.views([marked.picture]))
        [code] = lock.hash.code(description)
        alike = lock.registry.alike(terms.key, lock.hash, code)
        lock.registry.remember(terms.name, terms.key, lock.hash, code)
        return replace(marked, alike=alike)

    def _settle(self, works: Sequence[_Work], hardener: Hardener | None) -> None:
        """Embed into each picture until its code settles or repeats itself.

        An accepted hardened picture is finished: later rounds would not improve it.
        """
        for work in works:
            work.code, work.tried = work.own_code, set()
        for _ in range(self.rounds):
            if not works:
                break
            self._embed(works, hardener)
            works = [
                work
                for work in works
                if work.code.tobytes() not in work.tried
                and not (hardener and work.result.verdict.accepted)
            ]

    def _warn_if_unregistered(self) -> None:
        """Warn once about what is missing with a hash that cannot register."""
        image_hash = self.lock.hash
        if image_hash is None or image_hash.registers or self._warned:
            return
        self._warned = True
        unhardened = (
            "" if self._hardener or not self.harden else "marked pictures are not hardened, "
        )
        warnings.warn(
            f"the hash '{image_hash.name}' cannot register: crops and turns are read as if they "
            f"were the whole picture, {unhardened}and no bound says how far a forger without the "
            "key can get",
            UnregisteredWarning,
            stacklevel=5,
        )

    def logits(self, pictures: Sequence[Picture]) -> tuple[Logits, Any]:
        """Payload logits and descriptions for pictures of any size."""
        return self.networks.logits(self.networks.views(pictures))

    def _begin(self, pictures: Sequence[Picture], messages: Sequence[str | Bits]) -> list[_Work]:
        """The pictures to mark, each with a salt and its current code."""
        lock, views, works = self.lock, self.networks.views(pictures), []
        for row, description in enumerate(self.networks.described(views)):
            terms = lock.terms(messages[row], lock.keys[0])
            salt, code, strength = 0, np.zeros(lock.bits, np.uint8), 1.0
            if lock.hash is not None:
                whole = lock.hash.code(description)
                [shown] = terms.code_map.seen(whole)
                salt = terms.code_map.stablest(shown)
                code = lock.code_of(shown[salt], terms, salt)
                strength = lock.strength(whole)
            works.append(_Work(pictures[row], views[row], terms, salt, code, strength))
        return works

    def _embed(self, works: Sequence[_Work], hardener: Hardener | None) -> None:
        """Embed once into each picture."""
        payloads = np.stack([self.lock.payload(work.terms.message, work.code) for work in works])
        residuals = self.networks.residuals([work.view for work in works], payloads)
        for work, payload, residual in zip(works, payloads, residuals, strict=True):
            mark = self._strength(work.original, residual) * residual
            added = self._hardened(hardener, work, mark) if hardener else (mark,)
            self._carry(work, payload, added)

    def _strength(self, picture: Picture, residual: Images) -> np.float32:
        """The factor for a residual that gives the marked picture the requested quality."""
        if self.psnr is None:
            return np.float32(1)
        allowed = 10 ** (-self.psnr / 10) - picture.rounding
        return np.float32((allowed / max(picture.energy_of(residual), 1e-12)) ** 0.5)

    def _hardened(self, hardener: Hardener, work: _Work, residual: Images) -> tuple[Images, ...]:
        """Add to a mark the change that keeps the picture's code stable under distortions.

        The mark already holds the payload, so hardening moves bits that embedding changed back to
        what the payload expects. It may cost at most half a decibel.
        """
        picture, code_map = work.original, work.terms.code_map
        energy = picture.energy_of(residual) + picture.rounding
        wanted = WantedCode(
            code_map.directions(work.salt),
            2 * (work.code ^ code_map.pads[work.salt]).astype(np.float32) - 1,
            energy * (10 ** (1.1 * MOST_COST / 10) - 1),
        )
        move = hardener(work.foreseen(residual), wanted)
        for strength in (1.0, 0.9, 0.8, 0.6, 0.4):
            part = move * np.float32(strength)
            added = (residual + part,) if part.shape == residual.shape else (residual, part)
            spent = sum(map(picture.energy_of, added)) + picture.rounding
            if spent <= energy * 10 ** (MOST_COST / 10):
                return (self._strength(picture, added[0]) * added[0], *added[1:])
        return (residual,)

    def _carry(self, work: _Work, payload: Bits, residuals: Sequence[Images]) -> None:
        """Put a mark into the full picture, and record its verdict."""
        picture = work.original
        for residual in residuals:
            picture = picture.with_residual(residual)
        [decoded], [description] = self.logits([picture])
        if not self.networks.watermark.hard_bits:  # which may all be ones
            _refuse_probabilities(decoded, payload, self.networks.watermark.name)
        verdict = self.lock.own_verdict(decoded, description, work.terms, work.salt)
        if work.marked is None or verdict.p_value < work.marked.verdict.p_value:
            psnr = work.original.psnr(picture)
            work.marked = Marked(picture, verdict, psnr, work.code, work.salt, work.strength)
        work.tried.add(work.code.tobytes())
        work.code = self.lock.code(description, work.terms, work.salt)


@dataclass
class _Work:
    """One picture on its way to being marked."""

    original: Picture
    view: Images
    terms: Terms
    salt: int
    own_code: Bits
    """The code of the original."""
    strength: float
    code: Bits = field(init=False)
    """The code to embed next: that of the marked picture."""
    tried: set[bytes] = field(init=False)
    """The codes that were embedded."""
    marked: Marked | None = None

    @property
    def result(self) -> Marked:
        """The best of the marked pictures; there is one after the first round."""
        assert self.marked is not None
        return self.marked

    def foreseen(self, residual: Images) -> Images:
        """The view of the picture with ``residual`` in it."""
        if self.original.alpha is not None:
            return self.original.with_residual(residual).view(self.view.shape[1:])
        seen: Images = np.clip(self.view + self.original.seen_of(residual), 0, 1)
        if self.original.size == self.view.shape[1:] and self.original.pixels.dtype == np.uint8:
            seen = np.rint(seen * np.float32(255)) / np.float32(255)
        return seen


def _refuse_probabilities(decoded: Logits, payload: Bits, plugin: str) -> None:
    """Refuse a decoder with outputs from 0 to 1, because every bit would be read as 1."""
    if decoded.size and (payload == 0).any() and decoded.min() >= 0 and 0 < decoded.max() <= 1:
        raise PluginError(
            f"plugin '{plugin}' returned values from 0 to 1 from decode, which wants logits: "
            "return values above 0 for ones and below 0 for zeros, such as log(p / (1 - p))"
        )
