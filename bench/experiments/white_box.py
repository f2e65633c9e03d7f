"""White box: a forger who knows the hash and its weights moves pictures until their codes collide.

He also has the true residual of every released picture, as no real attacker has. Each target gets
the residual of the released picture whose code is nearest, and is then changed within a budget. He
may lack the key, or there may be none. The least change of a linear code is known in closed form
(``forgers``); this search works for every hash with gradients, so hashes can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import Ledger, Session, digest, judging_code, resumable
from coverlock_bench.measurement import (
    Measured,
    images_option,
    measurement,
    number_option,
    seed_option,
    watermark_option,
    work_option,
)
from coverlock_bench.photos import Picture8, find_photos, load_squares, to_8_bit
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import RATE, Table, below, nested
from coverlock_bench.trial import floats, judge, mark
from coverlock_sdk import CoverLock, ImageHash, Key, load_hash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.resampling import resample_matrix
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.secret_rotations import code_map
from coverlock_sdk.plugin_calls import hash_logits, working_size

BUDGETS = (40.0, 34.0, 28.0)
"""PSNR of the change, in decibels, between a target with its residual and what comes of it."""
STEPS = 25
FIRST_STEP = 0.25
"""In units of the budget; later steps shrink to nothing."""
MARGIN = 0.3
"""How far beyond zero a number is pushed, in units of the mean magnitude."""
TOGETHER = 16
"""Pictures that are changed at once; more would only cost memory."""
MESSAGE = "white box"
SECRET = Key(b"the adaptive attacker has no key", id="bench")


def collided(
    image_hash: ImageHash,
    pictures: Images,
    sources: Images,
    decibels: float,
    bits: int | None = None,
) -> Images:
    """``pictures``, changed by so many decibels at most, with codes as near the sources' as can be.

    Projected gradient descent. A number counts until it has the source's sign and some margin, so
    that no effort goes into those that agree already. With the length of the message in ``bits``,
    only the numbers count that lock it where there is no key.
    """
    hashed = at_any_size(differentiable(image_hash), image_hash.input_size)
    directions = np.eye(image_hash.dimensions, dtype=np.float32)
    if bits is not None:
        directions = code_map(None, "", bits, image_hash.bands).directions(0)
    limit = np.float32(10 ** (-decibels / 20))  # root mean square, for values in [0, 1]
    aim = hashed(sources)[0] @ directions
    signs, enough = np.sign(aim), MARGIN * np.abs(aim).mean()
    change = np.zeros_like(pictures)
    for step in range(STEPS):
        logits, gradient = hashed(np.clip(pictures + change, 0, 1))
        lacking = signs * (logits @ directions) < enough
        uphill = gradient((signs * lacking) @ directions.T)
        stride = np.float32(FIRST_STEP * (1 - step / STEPS)) * limit
        change += stride / root_mean_square(uphill) * uphill
        change *= np.minimum(limit / root_mean_square(change), 1)
    return np.clip(pictures + change, 0, 1)


def differentiable(image_hash: ImageHash) -> Differentiable:
    """The logits of a hash with their gradient, as anyone can have them."""
    if isinstance(image_hash, OctaveCode):
        return lambda images: (
            image_hash.logits(images),
            lambda weights: np.stack([image_hash.pull_back(row) for row in weights]),
        )
    found = image_hash.differentiable()
    if found is None:
        raise CoverLockError(f"the hash '{image_hash.name}' has no gradients to attack it by")
    return found


def at_any_size(hashed: Differentiable, size: tuple[int, int]) -> Differentiable:
    """The same for pictures that are resampled to the hash's size first."""

    def resampled(images: Images) -> tuple[Logits, Gradient]:
        rows, columns = map(resample_matrix, images.shape[-2:], size)
        logits, gradient = hashed(np.matmul(np.matmul(rows, images), columns.T))
        return logits, lambda w: np.matmul(np.matmul(rows.T, gradient(w)), columns)

    return resampled


def root_mean_square(images: Images) -> Images:
    """Of each picture (N, 3, H, W): (N, 1, 1, 1), never quite zero."""
    mean = np.square(images).mean(axis=(1, 2, 3), keepdims=True)
    return np.maximum(np.sqrt(mean), np.float32(1e-12))


def nearest(image_hash: ImageHash, targets: Images, released: Images) -> list[int]:
    """For every target, the row of the released picture whose code is nearest."""
    here, there = (_unit(hash_logits(image_hash, images)) for images in (targets, released))
    return [int(row) for row in np.argmax(here @ there.T, axis=1)]


def _unit(logits: Logits) -> Logits:
    unit: Logits = logits / np.maximum(np.linalg.norm(logits, axis=1, keepdims=True), 1e-12)
    return unit


def forgeries(
    protected: LockedWatermark,
    originals: Sequence[Picture8],
    targets: Sequence[Picture8],
    decibels: float,
) -> dict[str, Any]:
    """How many targets pass, and how far they are from what they were."""
    image_hash = protected.hash
    assert image_hash is not None
    released = floats([mark(protected, picture, MESSAGE).picture for picture in originals])
    wanted = floats(targets)
    chosen = nearest(image_hash, wanted, released)
    pasted = wanted + (released - floats(originals))[chosen]
    bits = protected.bits if protected.keyring is None else None
    forged = [
        to_8_bit(picture)
        for start in range(0, len(pasted), TOGETHER)
        for picture in collided(
            image_hash,
            pasted[start : start + TOGETHER],
            released[chosen[start : start + TOGETHER]],
            decibels,
            bits,
        )
    ]
    seen = judge(protected, forged, MESSAGE)
    return {
        "asr": rate(sum(outcome.accepted for outcome in seen), len(seen)),
        "bits_matched": fmean(outcome.matches / outcome.bits for outcome in seen),
        "psnr": fmean(read(a).psnr(read(b)) for a, b in zip(targets, forged, strict=True)),
    }


WHITE_BOX = Table(
    "Forgeries that pass, by attackers who know the hash and its weights",
    nested("hash", "lock", "budget"),
    (
        ("hash", "{hash}"),
        ("lock", "{lock}"),
        ("change", "{budget}"),
        ("accepted", below("asr", RATE)),
        ("PSNR", "{psnr:.1f} dB"),
    ),
)


@measurement(
    "experiments white-box",
    watermark_option,
    images_option,
    click.option("--fpr", default=DEFAULT_FPR, show_default=True),
    seed_option,
    click.option(
        "--hash", "hashes", multiple=True, default=("octave",), help="A hash; may be repeated."
    ),
    number_option("--count", 30, "Targets of each attack, and released pictures."),
    work_option("white-box"),
)
def white_box_command(
    watermark: str,
    images: Path | None,
    hashes: tuple[str, ...],
    count: int,
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """Attack locks as someone who knows the hash, with and without a key."""
    photos = find_photos(images)
    if len(photos) < 2 * count:
        raise CoverLockError(
            f"{count} targets and as many released pictures need {2 * count} photos, "
            f"but there are {len(photos)}"
        )
    system = named_watermark(watermark)
    order = np.random.default_rng(seed).permutation(len(photos))[: 2 * count]
    squares = load_squares([photos[row] for row in order], working_size(system)[0])
    targets, originals = squares[:count], squares[count:]
    locks = {
        (hash, arm): CoverLock(hash=hash, key=key, fpr=fpr).protect(system)
        for hash in hashes
        for arm, key in (("a key", SECRET), ("no key", None))
    }
    session = Session(Ledger(work), quiet=False, stages=len(locks))
    figures: dict[str, Any] = {}
    with resumable(work, session):
        for (hash, arm), protected in locks.items():
            kept = {"lock": session.fingerprint(protected), "code": judging_code((__name__,))}
            kept["pictures"] = digest(*squares)
            cells = figures.setdefault(hash, {}).setdefault(arm, {})
            for decibels in session.steps(BUDGETS, f"{hash}, {arm}"):
                attack = partial(forgeries, protected, originals, targets, decibels)
                cells[f"{decibels:g} dB"] = session.once(attack, **kept, decibels=decibels)
    config = {"watermark": watermark, "hashes": list(hashes), "targets": count}
    config |= {"fpr": fpr, "seed": seed}
    config["weights"] = {hash: weights_of(load_hash(hash)) for hash in hashes}
    return Measured(config, figures, WHITE_BOX.markdown(figures))
