"""CoverLock itself: the payload is the message XOR a code of the picture that carries it.

A residual pasted onto another picture brings the payload but not the code, so what is read
there is noise. Section 4 of the paper; fixed-point binding is our addition.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Union, overload

import numpy as np

from coverlock_sdk.contract import (
    Bits,
    Defense,
    ImageHash,
    Images,
    Logits,
    ProtectedWatermark,
    Watermark,
)
from coverlock_sdk.errors import (
    CoverLockError,
    LossyFormatWarning,
    PictureError,
    PluginError,
    WeakMarkWarning,
)
from coverlock_sdk.images.picture import (
    LOSSLESS_SUFFIXES,
    Picture,
    default_output,
    encode_image,
    load_image,
    read,
    read_batch,
    refuse_shared_outputs,
    stacked_views,
    write_file,
)
from coverlock_sdk.locking.error_correction import Framing
from coverlock_sdk.locking.hardening import MOST_COST, Hardener
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.judging import Examiner, announce
from coverlock_sdk.locking.keys import Key, Keyring, as_keyring
from coverlock_sdk.locking.lock_format import LockFormat, Reading
from coverlock_sdk.locking.verdict import Rule, Verdict
from coverlock_sdk.plugin_manager import load_hash, load_watermark

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

PathLike = str | os.PathLike[str]
Many = list[Any] | tuple[Any, ...]
One = Union[str, os.PathLike[str], "PilImage"]
"""Kinds of which it is clear that they are many pictures, or one; an array may be either."""

DEFAULT_HASH = "nano"
DEFAULT_RULE: Rule = "soft"
DEFAULT_FPR = 1e-6
DEFAULT_ROUNDS = 4


def wrap(
    watermark: str | Any,
    hash: str | ImageHash = DEFAULT_HASH,
    key: Any = None,
    fpr: float = DEFAULT_FPR,
    rule: Rule | None = None,
    harden: bool = False,
) -> BoundWatermark:
    """Lock a watermark to its pictures.

    ``watermark`` is the name of a plugin or an object of your own; ``key`` a ``Key``, a
    ``Keyring`` or the path of a key file (without one the lock has no secret); ``fpr`` the
    probability with which an unmarked picture may be accepted; ``rule`` "hard" (count matching
    bits, as the paper does) or "soft" (weigh them by confidence), None for the default. With
    ``harden``, embedding takes seconds longer, costs up to half a decibel, and the mark survives
    distortions better; it needs PyTorch, and verification does not change.
    """
    defense = CoverLock(hash=hash, key=key, fpr=fpr, rule=rule or DEFAULT_RULE, harden=harden)
    return defense.protect(load_watermark(watermark))


@dataclass(frozen=True)
class CoverLock(Defense):
    """The paper's defence: bind the payload to the picture by XOR with its hash."""

    name: ClassVar[str] = "coverlock"

    hash: str | ImageHash = DEFAULT_HASH
    key: Any = field(default=None, repr=False)
    fpr: float = DEFAULT_FPR
    rule: Rule = DEFAULT_RULE
    rounds: int = DEFAULT_ROUNDS
    """How often a picture may be marked anew until its code settles; 1 is the paper's way."""
    harden: bool = False
    """Whether marked pictures are moved a little so that distortions do not move their code."""

    def protect(self, watermark: Watermark) -> BoundWatermark:
        """Put ``watermark`` behind the lock."""
        image_hash, keyring = load_hash(self.hash), as_keyring(self.key)
        hardener = Hardener(image_hash) if self.harden else None
        return BoundWatermark(
            watermark, image_hash, keyring, self.fpr, self.rule, self.rounds, hardener
        )


@dataclass(frozen=True)
class NoDefense(Defense):
    """The watermark as its vendor made it, verified by the same statistics: the thing to beat."""

    name: ClassVar[str] = "none"

    fpr: float = DEFAULT_FPR
    rule: Rule = DEFAULT_RULE

    def protect(self, watermark: Watermark) -> BoundWatermark:
        """Give ``watermark`` messages and verdicts, and nothing more."""
        return BoundWatermark(watermark, None, None, self.fpr, self.rule, rounds=1)


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


class BoundWatermark(ProtectedWatermark):
    """A watermark whose payload is bound to the picture by a hash (or, without one, is not)."""

    def __init__(
        self,
        watermark: Watermark,
        image_hash: ImageHash | None,
        keyring: Keyring | None,
        fpr: float,
        rule: Rule,
        rounds: int,
        hardener: Hardener | None = None,
    ) -> None:
        if rounds < 1:
            raise CoverLockError(f"a picture is marked in at least one round, not in {rounds}")
        _check_shape(watermark)
        self.watermark = watermark
        self.hash = image_hash
        self.format = LockFormat(
            watermark.bits, watermark.calibration, image_hash.calibration if image_hash else None
        )
        self.examiner = Examiner(self.format, keyring, fpr, rule)
        self.keyring = keyring
        self.bits = self.format.bits
        self.fpr = self.examiner.fpr
        self.rule: Rule = rule
        self.rounds = rounds
        self.hardener = hardener

    def __repr__(self) -> str:
        bound = self.hash.name if self.hash else None
        return (
            f"BoundWatermark({self.watermark.name!r}, hash={bound!r}, keyring={self.keyring!r}, "
            f"fpr={self.fpr:g}, rule={self.rule!r})"
        )

    @property
    def keys(self) -> Sequence[Key | None]:
        """The active keys, the marking one first; a single None where there is no keyring."""
        return self.examiner.keys

    def embed(self, pictures: Any, messages: Any, out: PathLike | None = None) -> Any:
        """Return ``pictures`` carrying ``messages``, each of the kind it was given as.

        A message is an array of bits, or a string: an identifier, whose codeword is embedded.
        A path gives a path: the marked picture is written to ``out``, or beside the original as
        ``NAME.marked.png``. A picture whose mark would not verify is returned with a warning.
        """
        if isinstance(pictures, str | os.PathLike):
            return self.mark_file(pictures, messages, out).picture
        if out is not None:
            raise PictureError("'out' names the file for a picture that is given as a path")
        refuse_shared_outputs(pictures)
        batch = read_batch(pictures)
        marked = self._bind(
            batch.pictures, self.examiner.message_bits(messages, len(batch.pictures), self.keys[0])
        )
        for result in marked:
            _warn_if_weak(result.verdict)
        return batch.values([result.picture for result in marked])

    def mark(self, picture: Any, message: Any) -> Marked:
        """Embed into one picture and report on it: verdict, PSNR, rounds, hash errors."""
        if isinstance(picture, str | os.PathLike):
            return self.mark_file(picture, message)
        [marked] = self._bind([read(picture)], self.examiner.message_bits(message, 1, self.keys[0]))
        return replace(marked, picture=marked.picture.value())

    def mark_file(
        self,
        source: str | os.PathLike[str],
        message: Any,
        out: PathLike | None = None,
    ) -> Marked:
        """Embed into a picture file, write the result, and report on it.

        For a lossy format the report is about the picture that was read back, and a warning
        says what compression cost.
        """
        source = Path(source)
        target = Path(out) if out is not None else default_output(source)
        picture = read(load_image(source))
        if target.exists() and target.samefile(source):
            raise PictureError(f"{target} is the original: choose another name for the output")
        bits = self.examiner.message_bits(message, 1, self.keys[0])
        [marked] = self._bind([picture], bits)
        content = encode_image(marked.picture.value(), target.suffix)
        if target.suffix.lower() not in LOSSLESS_SUFFIXES:
            marked = self._after_compression(marked, picture, content, bits[0], target.name)
        write_file(target, content)
        _warn_if_weak(marked.verdict)
        return replace(marked, picture=target)

    def decode(self, pictures: Any) -> Any:
        """The message logits (N, bits) that ``pictures`` show to the holder of the first key."""
        batch = read_batch(pictures)
        logits = self._logits(batch.views(self.watermark.native_size))
        return batch.as_tensor(self.format.message_logits(*logits, self.keys[0]))

    @overload
    def verify(
        self, pictures: Many, messages: Any, accept_unlocked: bool = ...
    ) -> list[Verdict]: ...

    @overload
    def verify(self, pictures: One, messages: Any, accept_unlocked: bool = ...) -> Verdict: ...

    @overload
    def verify(self, pictures: Any, messages: Any, accept_unlocked: bool = ...) -> Any: ...

    def verify(self, pictures: Any, messages: Any, accept_unlocked: bool = False) -> Any:
        """Say of each of ``pictures`` whether it carries its message.

        Every active key is tried, and with ``accept_unlocked`` also the payload as it is, for
        pictures marked before the lock was introduced; the p-value is corrected for each try.
        """
        batch = read_batch(pictures)
        logits = self._logits(batch.views(self.watermark.native_size))
        verdicts = self.examiner.verify(*logits, messages, accept_unlocked)
        self._announce(verdicts, pictures)
        return verdicts[0] if batch.single else verdicts

    @overload
    def identify(self, pictures: Many, messages: Any) -> list[Identification]: ...

    @overload
    def identify(self, pictures: One, messages: Any) -> Identification: ...

    @overload
    def identify(self, pictures: Any, messages: Any) -> Any: ...

    def identify(self, pictures: Any, messages: Any) -> Any:
        """Find which of many registered messages each picture carries, if any.

        ``messages`` is a ``MessageBook`` (build it once for many pictures), an array (N, bits),
        a mapping from labels to messages, or a list of identifiers. The p-value is corrected
        for the number of messages and keys.
        """
        book = self.examiner.checked_book(messages)
        batch = read_batch(pictures)
        answers = self.examiner.identify(
            *self._logits(batch.views(self.watermark.native_size)), book
        )
        self._announce([answer.verdict for answer in answers], pictures)
        return answers[0] if batch.single else answers

    def book(self, messages: Any) -> MessageBook:
        """Pack registered messages, or identifiers, for repeated identification."""
        return self.examiner.book(messages)

    def read(self, picture: Any, framing: Framing) -> Identification:
        """Read the payload that ``framing`` put into the message of one picture.

        The p-value is corrected for all payloads that might have been read.
        """
        logits = self._logits(read(picture).view(self.watermark.native_size)[None])
        answer = self.examiner.read(*logits, framing)
        self._announce([answer.verdict], picture)
        return answer

    def _bind(self, pictures: list[Picture], messages: Bits) -> list[Marked]:
        """Embed, look at the saved picture as verification will, and repeat where bits moved.

        The hash at verification is that of the marked picture. Where it differs from the code
        that was embedded, the original is marked anew with the code of the marked one, until it
        settles or repeats itself. The try with the lowest p-value is kept.
        """
        size = self.watermark.native_size
        views = stacked_views(pictures, size)
        codes = self.format.code(self._hash_logits(views), self.keys[0])
        best: dict[int, Marked] = {}
        tried: list[set[bytes]] = [set() for _ in pictures]
        unsettled = list(range(len(pictures)))
        for round_number in range(1, self.rounds + 1):
            if not unsettled:
                break
            payloads = self.format.payload(messages[unsettled], codes[unsettled])
            covers = views[unsettled]
            residuals = self.watermark.embed(covers, payloads) - covers
            marked = [
                pictures[index].with_residual(residual)
                for index, residual in zip(unsettled, residuals, strict=True)
            ]
            decoded, hashed = self._logits(stacked_views(marked, size))
            readings = self.format.readings(decoded, hashed, self.keys[0])
            new_codes = self.format.code(hashed, self.keys[0])
            moved = []
            for row, index in enumerate(unsettled):
                tried[index].add(codes[index].tobytes())
                result = Marked(
                    picture=marked[row],
                    verdict=self.examiner.judge_own(readings[row], messages[index]),
                    psnr=pictures[index].psnr(marked[row]),
                    rounds=round_number,
                    hash_errors=int((new_codes[row] != codes[index]).sum()),
                    code=codes[index].copy(),
                )
                best[index] = _better(best.get(index), result)
                if new_codes[row].tobytes() not in tried[index]:
                    codes[index] = new_codes[row]
                    moved.append(index)
            unsettled = moved
        bound = [best[index] for index in range(len(pictures))]
        if self.hardener is None:
            return bound
        return [
            self._harden(self.hardener, marked, original, message)
            for marked, original, message in zip(bound, pictures, messages, strict=True)
        ]

    def _harden(
        self, hardener: Hardener, marked: Marked, original: Picture, message: Bits
    ) -> Marked:
        """Move a marked picture so that the code it carries stays its code under distortions.

        The payload is in it already and stays as it is, so bits that binding could not settle
        are moved to where the payload wants them. Half a decibel is the most this may cost.
        """
        places, signs = self.format.wanted_signs(marked.code, self.keys[0])
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
        decoded, hashed = self._logits(picture.view(self.watermark.native_size)[None])
        [reading] = self.format.readings(decoded, hashed, self.keys[0])
        verdict = self.examiner.judge_own(reading, message)
        if marked.verdict.accepted and not verdict.accepted:
            return marked
        code = self.format.code(hashed, self.keys[0])[0]
        errors = int((code != marked.code).sum())
        return replace(marked, picture=picture, verdict=verdict, psnr=psnr, hash_errors=errors)

    def _after_compression(
        self, marked: Marked, original: Picture, content: bytes, message: Bits, name: str
    ) -> Marked:
        """What is left of a mark in the compressed file, with a warning that says so."""
        from PIL import Image

        compressed = read(Image.open(io.BytesIO(content)))
        [reading] = self.readings(compressed.view(self.watermark.native_size)[None])
        verdict, before = self.examiner.judge_own(reading, message), marked.verdict
        warnings.warn(
            f"{name} is a lossy file: {verdict.matches} of {verdict.bits} bits survive in it, "
            f"{before.matches} would in a .png (p-value {verdict.p_value:.2g} instead of "
            f"{before.p_value:.2g})",
            LossyFormatWarning,
            stacklevel=4,
        )
        return replace(marked, verdict=verdict, psnr=original.psnr(compressed))

    def readings(self, views: Images, key: Key | None = None) -> list[Reading]:
        """What pictures at the native size show to the holder of ``key``, or of the first key."""
        return self.format.readings(*self._logits(views), key or self.keys[0])

    def _logits(self, views: Images) -> tuple[Logits, Logits]:
        return self.watermark.decode(views), self._hash_logits(views)

    def _hash_logits(self, views: Images) -> Logits:
        if self.hash is None:
            return np.empty((len(views), 0), dtype=np.float32)
        return self.hash.logits(views)

    def _announce(self, verdicts: Sequence[Verdict], pictures: Any) -> None:
        hash_name = self.hash.name if self.hash else None
        announce(verdicts, pictures, self.watermark.name, hash_name)


def _check_shape(watermark: Watermark) -> None:
    bits, size = getattr(watermark, "bits", None), getattr(watermark, "native_size", None)
    pair = isinstance(size, tuple) and len(size) == 2 and all(isinstance(n, int) for n in size)
    if not isinstance(bits, int) or bits < 1 or not pair or min(size or (0,)) < 1:
        raise PluginError(
            f"the watermark '{watermark.name}' has bits {bits!r} and native_size {size!r}: "
            "they must be a positive int and a tuple of two (height, width)"
        )


def _better(earlier: Marked | None, later: Marked) -> Marked:
    if earlier is None or later.verdict.p_value < earlier.verdict.p_value:
        return later
    return replace(earlier, rounds=later.rounds)


def _warn_if_weak(verdict: Verdict) -> None:
    if not verdict.accepted:
        warnings.warn(
            f"the marked picture would not be accepted ({verdict.matches} of {verdict.bits} bits, "
            f"p = {verdict.p_value:.2g}): use a picture with more texture, a larger size, or a "
            "watermark that carries it better",
            WeakMarkWarning,
            stacklevel=4,
        )
