"""The hashes that a white-box forger is set upon: with gradients, and as they ship."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from coverlock_bench.adaptive.white_box import module_of, resampled
from coverlock_bench.hashes.assets import NEURAL_HASH
from coverlock_bench.hashes.neural_hash import BITS, SIDE, NeuralHash
from coverlock_bench.photos import to_8_bit
from coverlock_sdk import ImageHash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.loading import load_hash
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.plugin_calls import picture_logits


@dataclass(frozen=True)
class Opponent:
    """A hash to forge codes of: what the forger differentiates, and what judges the result."""

    name: str
    module: nn.Module
    side: int
    bits: int
    judged: Callable[[Images], Logits]
    """The logits of pictures (N, 3, H, W) by the hash as it ships."""
    calibration: Calibration | None
    """None for a hash that cannot lock."""

    def logits(self, pictures: Tensor) -> Tensor:
        """Logits (N, bits) of pictures (N, 3, H, W), with gradients.

        In bfloat16, which is twice as fast where the processor has it and no worse a guide; what
        it leads to is judged in full precision.
        """
        with torch.autocast("cpu", torch.bfloat16):
            logits: Tensor = self.module(resampled(pictures, self.side))
        return logits.float()


def opponent(hash: str | ImageHash) -> Opponent:
    """A hash to attack, or an error if it has no gradients or was not fetched."""
    if hash == NEURAL_HASH.name:
        network = NeuralHash().requires_grad_(False).eval()
        return Opponent(hash, network, SIDE, BITS, _judged_by(network), None)
    module, side = module_of(hash)
    image_hash = load_hash(hash)

    def judged(images: Images) -> Logits:
        return picture_logits(image_hash, [to_8_bit(image) for image in images])

    return Opponent(image_hash.name, module, side, CODE_BITS, judged, image_hash.calibration)


def _judged_by(network: nn.Module) -> Callable[[Images], Logits]:
    def judged(images: Images) -> Logits:
        with torch.inference_mode():
            rows = [network(resampled(torch.from_numpy(i[None]), SIDE))[0] for i in images]
        logits: Logits = np.stack([row.numpy() for row in rows])
        return logits

    return judged
