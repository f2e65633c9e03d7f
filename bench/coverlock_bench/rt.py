"""Residual transferability, RT@s: how much of a mark survives on pictures it was not made for.

Section 3.1 of the paper. The residual is the true one, averaged over s sources, so that the figure
describes the watermark and not some attack's skill at estimating it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_sdk import Watermark
from coverlock_sdk.contract import Images
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.pictures import read_batch

BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Transferability:
    """RT@s with a 95 % interval from resampling messages and target pictures."""

    rt: float
    low: float
    high: float
    accuracy: float
    """Mean share of bits that decode from the forged pictures."""
    sources: int
    targets: int
    messages: int
    eight_bit: bool


def residual_transferability(
    watermark: Watermark,
    images: Any,
    sources: int = 100,
    targets: int = 100,
    messages: int = 5,
    seed: int = 0,
    eight_bit: bool = True,
) -> Transferability:
    """RT@``sources`` of a watermark, on pictures of any kind the SDK reads.

    ``targets`` pictures are set aside; for each random message a residual is averaged over
    ``sources`` of the others and pasted onto all targets. With ``eight_bit``, marked and forged
    pictures are rounded as saved ones are.
    """
    batch = read_batch(images)
    if len(batch.pictures) < sources + targets:
        raise CoverLockError(
            f"RT@{sources} on {targets} targets needs {sources + targets} different pictures, "
            f"but there are {len(batch.pictures)}"
        )
    views = _saved(batch.views(watermark.native_size), eight_bit)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(views))
    victims, pool = views[order[:targets]], views[order[targets:]]
    attack = GroundTruthResidual(sources=sources)
    accuracy = np.empty((messages, targets))
    for row in range(messages):
        message = rng.integers(0, 2, watermark.bits, dtype=np.uint8)
        originals = pool[rng.choice(len(pool), sources, replace=False)]
        marked = _saved(watermark.embed(originals, message), eight_bit)
        forged = _saved(attack.forge(marked, victims, originals=originals), eight_bit)
        accuracy[row] = ((watermark.decode(forged) > 0) == message).mean(axis=1)
    low, high = _interval(accuracy, rng)
    mean = float(accuracy.mean())
    return Transferability(_rt(mean), low, high, mean, sources, targets, messages, eight_bit)


def _rt(accuracy: float) -> float:
    return max(2 * accuracy - 1, 0.0)


def _saved(images: Images, eight_bit: bool) -> Images:
    return (np.rint(images * 255) / 255).astype(np.float32) if eight_bit else images


def _interval(accuracy: npt.NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """Bits of one picture go together, so pictures are resampled, and messages likewise."""
    messages, targets = accuracy.shape
    rows = rng.integers(messages, size=(BOOTSTRAPS, messages, 1))
    columns = rng.integers(targets, size=(BOOTSTRAPS, 1, targets))
    means = accuracy[rows, columns].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return _rt(float(low)), _rt(float(high))
