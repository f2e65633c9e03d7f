"""The gate of an export: on real photos, every graph must answer as the SDK does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.errors import BundleError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import fixed_size, working_size
from coverlock_sdk.verifier.verifier import Verifier

Run = Callable[[Pixels], tuple[Logits, Descriptions]]

Steps = Callable[[str, int], Callable[[], None]]
"""``steps(what, total)`` begins a step and returns what to call after each of its parts."""

MARKED = slice(0, None, 2)
"""The rows of a trial that carry their message: every other one."""

TOGETHER = 4
"""Pictures that are run at once; more would only cost memory."""

MOST_OTHER_SIZES = 50
"""Photos that are compared at sizes other than the graph's."""


class Limit(NamedTuple):
    """What a graph must reach."""

    figure: str
    """Whose bits count: see ``Answers.compared``."""
    bits: float
    verdicts: float


EXACT, REDUCED = Limit("all_bits", 0.9999, 1.0), Limit("bits", 0.99, 0.999)
ROUNDED = Limit("bits", 0.995, 0.95)
LIMITS = {
    "torch": EXACT,
    "fp32": EXACT,
    "fp16": REDUCED,
    "int8": REDUCED,
    "other_sizes": ROUNDED,
}
REMEDIES = {
    EXACT: "decoder_module() or the hash's module() computes something else than the plugin itself",
    REDUCED: "leave it out with --precision, calibrate on other --images, or insist with --force",
    ROUNDED: "a Verifier rounds resampled pictures to 8 bits, which this decoder or hash does not "
    "survive; verify pictures of the graph's size only and insist with --force",
}


@dataclass(frozen=True)
class Trial:
    """Photos at the graph's size with a message each; every other photo is marked with it."""

    lock: LockedWatermark
    images: Pixels
    messages: Bits

    @classmethod
    def prepare(
        cls, lock: LockedWatermark, photos: Sequence[Path], seed: int, advance: Callable[[], None]
    ) -> Trial:
        """Mark every other of ``photos`` with a random message."""
        messages = _messages(lock, len(photos), seed)
        images = [read(photo).to_bytes(working_size(lock.watermark)) for photo in photos]
        for row in range(len(photos))[MARKED]:
            images[row] = lock.mark(images[row], messages[row]).picture
            advance()
        return cls(lock, np.stack(images), messages)

    def run(self, network: Run, advance: Callable[[], None]) -> Answers:
        """What ``network`` answers to all pictures."""
        parts = []
        for start in range(0, len(self.images), TOGETHER):
            parts.append(network(self.images[start : start + TOGETHER]))
            for _ in parts[-1][0]:
                advance()
        return Answers.collected(self.lock, parts, self.messages)


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

    @classmethod
    def collected(
        cls,
        lock: LockedWatermark,
        parts: Sequence[tuple[Logits, Descriptions]],
        messages: Bits,
    ) -> Answers:
        """Answers that were given in several parts."""
        assert lock.hash is not None
        decoded, described = (np.concatenate(part) for part in zip(*parts, strict=True))
        codes = np.concatenate([lock.hash.code(description) for description in described])
        accepted = [
            bool(answer)
            for row, message in enumerate(messages)
            for answer in lock.lock.identify(
                decoded[row : row + 1], described[row : row + 1], lock.book(message[None])
            )
        ]
        return cls(decoded, codes, np.array(accepted))

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


def host_parity(
    lock: LockedWatermark,
    bundle: Bundle,
    photos: Sequence[Path],
    seed: int,
    force: bool,
    steps: Steps,
) -> dict[str, Any]:
    """How far a bundle that names a plugin agrees with the SDK, each precision of the hash.

    The plugin itself is the same on both sides. Where it takes pictures of any size, the host
    resamples them for the hash and rounds, which is measured as at other sizes.
    """
    trial = Trial.prepare(lock, photos, seed, steps("marking every other photo", len(photos) // 2))
    reference = trial.run(lock.logits, steps("running the SDK", len(photos)))
    figures: dict[str, Any] = {}
    for precision in bundle.manifest.graphs[bundle.graph]:
        with Verifier.open(
            bundle, "cpu", precision=precision, key=lock.keyring, watermark=lock.watermark
        ) as verifier:
            answers = trial.run(verifier.logits, steps(f"running {precision}", len(photos)))
            figures[precision] = answers.compared(reference)
            if precision == "fp32" and lock.watermark.native_size:
                resized = photos[:MOST_OTHER_SIZES]
                advance = steps("comparing other sizes", len(resized))
                other_sizes = compared_at_other_sizes(lock, resized, verifier.logits, seed, advance)
    if lock.watermark.native_size is None:
        other_sizes = figures.pop("fp32")
    hold_to_limits({**figures, "other_sizes": other_sizes}, force)
    return {"photos": len(photos), "seed": seed, "graphs": figures, "other_sizes": other_sizes}


def _share(*equal: npt.NDArray[np.bool_]) -> float:
    return sum(int(part.sum()) for part in equal) / sum(part.size for part in equal)


def compared_at_other_sizes(
    lock: LockedWatermark,
    photos: Sequence[Path],
    graph: Run,
    seed: int,
    advance: Callable[[], None],
) -> dict[str, Any]:
    """How far ``graph`` agrees with the SDK on pictures that do not have its size.

    Both resample them on the host with the same weights. That much is exact. The SDK then looks at
    floats, and a graph takes bytes, so a ``Verifier`` rounds to 8 bits: logits near zero may change
    sign. Photos are taken at their own size; one that happens to have the graph's is enlarged by
    half. Every other one is marked at that size.
    """
    size = fixed_size(lock.watermark, "a graph")
    messages = _messages(lock, len(photos), seed)
    marked = range(len(photos))[MARKED]
    expected, found = [], []
    for row, photo in enumerate(photos):
        pixels = _of_another_size(read(photo), size)
        if row in marked:
            pixels = lock.mark(pixels, messages[row]).picture
        expected.append(lock.logits(pixels))
        found.append(graph(Picture(pixels).to_bytes(size)[None]))
        advance()
    return Answers.collected(lock, found, messages).compared(
        Answers.collected(lock, expected, messages)
    )


def _of_another_size(photo: Picture, size: tuple[int, int]) -> Pixels:
    if photo.size != size:
        return photo.to_bytes()
    return photo.to_bytes((size[0] * 3 // 2, size[1] * 3 // 2))


def _messages(lock: LockedWatermark, count: int, seed: int) -> Bits:
    return np.random.default_rng(seed).integers(0, 2, (count, lock.bits), dtype=np.uint8)


def hold_to_limits(figures: Mapping[str, Mapping[str, Any]], force: bool) -> None:
    """Fail an export that changes answers.

    ``force`` lets reduced precisions, and rounding at other sizes, pass all the same.
    """
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
