"""How linear a hash is: whether the code of a mixture of pictures follows from their codes.

NeuralHash was found to be nearly linear (Bhatia and Meng, arXiv 2207.14258), which lets a forger
without gradients steer its bits by adding pictures up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.photos import load_squares, to_8_bit, to_float
from coverlock_sdk import ImageHash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.plugin_calls import picture_logits

SIDE = 256
PAIRS = 40
FAINT = (0.1, 0.2, 0.3)
"""Shares of another picture that a forger may mix into one."""


def linearity(image_hash: ImageHash, photos: list[Path]) -> dict[str, Any]:
    """For pairs of photos: how well codes of mixtures are foretold, and what mixing gains.

    ``foretold`` is the share of bits of a picture mixed from both halves that the mean of their
    logits has (1 if the hash is linear, 0.5 if there is no relation), ``cosine`` that of the
    logits, and ``mixed_in`` the bits that agree with the source by the share of it in a target.
    """
    count = min(2 * PAIRS, len(photos) // 2 * 2)
    pictures = np.stack([to_float(square) for square in load_squares(photos[:count], SIDE)])
    targets, sources = pictures[::2], pictures[1::2]
    own, wanted = _logits(image_hash, targets), _logits(image_hash, sources)
    halves, mean = _logits(image_hash, _mixed(targets, sources, 0.5)), (own + wanted) / 2
    lengths = np.linalg.norm(halves, axis=1) * np.linalg.norm(mean, axis=1)
    mixed = {share: _logits(image_hash, (1 - share) * targets + share * sources) for share in FAINT}
    return {
        "pairs": len(targets),
        "foretold": float(((halves > 0) == (mean > 0)).mean()),
        "cosine": float(((halves * mean).sum(axis=1) / lengths).mean()),
        "mixed_in": {
            f"{share:.0%}": float(((logits > 0) == (wanted > 0)).mean())
            for share, logits in mixed.items()
        },
    }


def _logits(image_hash: ImageHash, images: Images) -> Logits:
    return picture_logits(image_hash, [to_8_bit(image) for image in images])


def _mixed(targets: Images, sources: Images, share: float) -> Images:
    mixed: Images = targets + np.float32(share) * (sources - targets)
    return mixed
