"""The gate of an export: on real photos, every graph must answer as the SDK does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk import LockedWatermark, Settings, Verifier
from coverlock_sdk.arrays import Bits, Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.errors import BundleError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.plugin_calls import working_size
from coverlock_sdk.progress import progress

Run = Callable[[Pixels], tuple[Logits, Descriptions]]

MARKED = slice(0, None, 2)
"""The rows of a trial that carry their message: every other one."""

TOGETHER = 4
"""Pictures that are run at once; more would only cost memory."""


class Limit(NamedTuple):
    """What a graph must reach."""

    figure: str
    """Whose bits count: see ``Answers.compared``."""
    bits: float
    verdicts: float


EXACT, REDUCED = Limit("all_bits", 0.9999, 1.0), Limit("bits", 0.99, 0.999)
LIMITS = {"torch": EXACT, "fp32": EXACT, "fp16": REDUCED, "int8": REDUCED}
REMEDIES = {
    EXACT: "decoder_module() or the hash's module() computes something else than the plugin itself",
    REDUCED: "leave it out with --precision, calibrate on other --images, or insist with --force",
}


@dataclass(frozen=True)
class Trial:
    """Photos at the graph's size with a message each; every other photo is marked with it."""

    lock: LockedWatermark
    images: Pixels
    messages: Bits

    @classmethod
    def prepare(cls, lock: LockedWatermark, photos: Sequence[Path], seed: int) -> Trial:
        """Mark every other of ``photos`` with a random message."""
        shape = len(photos), lock.bits
        messages = np.random.default_rng(seed).integers(0, 2, shape, dtype=np.uint8)
        images = []
        for row, photo in enumerate(progress(photos, "marking every other photo")):
            images.append(read(photo).to_bytes(working_size(lock.watermark)))
            if row in range(len(photos))[MARKED]:
                images[row] = lock.mark(images[row], messages[row]).picture
        return cls(lock, np.stack(images), messages)

    def run(self, network: Run, name: str) -> Answers:
        """What ``network`` answers to all pictures."""
        starts = progress(range(0, len(self.images), TOGETHER), f"running {name}")
        parts = [network(self.images[start : start + TOGETHER]) for start in starts]
        assert self.lock.hash is not None
        decoded, described = (np.concatenate(part) for part in zip(*parts, strict=True))
        codes = np.concatenate([self.lock.hash.code(description) for description in described])
        accepted = []
        for row, message in enumerate(self.messages):
            one, book = slice(row, row + 1), self.lock.book(message[None])
            [answer] = self.lock.lock.identify(decoded[one], described[one], book)
            accepted.append(bool(answer))
        return Answers(decoded, codes, np.array(accepted))


@dataclass(frozen=True)
class Answers:
    """What one implementation answered to all pictures of a trial.

    Pictures are judged as a whole: the host tries frames, with the same code for every graph, and
    takes half a second where none fits.
    """

    decoded: Logits
    codes: Logits
    """The hash logits (N, dimensions) that the host computes from descriptions."""
    accepted: npt.NDArray[np.bool_]

    def compared(self, reference: Answers) -> dict[str, Any]:
        """Agreement with ``reference`` in bits, logits and verdicts.

        ``bits`` are those of all hashes and of the payloads that are there to be read; in
        ``all_bits`` are also those that decoders read into unmarked photos, which are noise.
        """
        decoder_bits = (self.decoded > 0) == (reference.decoded > 0)
        hash_bits = (self.codes > 0) == (reference.codes > 0)
        carried = decoder_bits[MARKED]
        return {
            "photos": len(self.accepted),
            "bits": _share(hash_bits, carried),
            "all_bits": _share(hash_bits, decoder_bits),
            "decoder_bits": _share(carried),
            "hash_bits": _share(hash_bits),
            "max_decoder_difference": float(np.abs(self.decoded - reference.decoded).max()),
            "max_hash_difference": float(np.abs(self.codes - reference.codes).max()),
            "verdicts": _share(self.accepted == reference.accepted),
            "accepted": int(self.accepted.sum()),
            "accepted_by_sdk": int(reference.accepted.sum()),
        }


def measured_parity(trial: Trial, bundle: Bundle, torch: Run | None) -> dict[str, dict[str, Any]]:
    """How far each precision of a bundle agrees with the SDK, and the module it was made from."""
    lock, figures = trial.lock, {}
    reference = trial.run(lock.logits, "the SDK")
    if torch is not None:
        figures["torch"] = trial.run(torch, "torch").compared(reference)
    for precision in bundle.manifest.graphs[bundle.graph]:
        settings = Settings(precision, watermark=lock.watermark)
        with Verifier.open(bundle, "cpu", key=lock.keyring, settings=settings) as verifier:
            figures[precision] = trial.run(verifier.logits, precision).compared(reference)
    return figures


def _share(*equal: npt.NDArray[np.bool_]) -> float:
    return sum(int(part.sum()) for part in equal) / sum(part.size for part in equal)


def hold_to_limits(figures: Mapping[str, Mapping[str, Any]], force: bool) -> None:
    """Fail an export that changes answers; ``force`` lets reduced precisions pass all the same."""
    for name, agreement in figures.items():
        limit = LIMITS[name]
        bits, verdicts = agreement[limit.figure], agreement["verdicts"]
        if bits >= limit.bits and verdicts >= limit.verdicts:
            continue
        if force and limit is not EXACT:
            continue
        raise BundleError(
            f"'{name}' does not answer as the SDK does: {bits:.4%} of bits and {verdicts:.2%} of "
            f"verdicts agree on {agreement['photos']} photos, {limit.bits:.2%} and "
            f"{limit.verdicts:.1%} are needed; {REMEDIES[limit]}"
        )
