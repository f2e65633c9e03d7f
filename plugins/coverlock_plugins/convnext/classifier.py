"""A ConvNeXt that tells genuine marked pictures from forged ones: one logit, above zero is genuine.

It is narrow enough for a CPU unless a larger shape is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.convnext.network import TINY, ConvNeXt, Shape
from coverlock_plugins.networks.network import in_chunks
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.models.checkpoints import read_weights, require_match

Scores = npt.NDArray[np.float64]

PUBLISHED = {"depths": TINY.depths, "widths": TINY.widths, "sees_texture": False}
"""The paper's ConvNeXt-Tiny, which needs a GPU."""

TEXTURE_WINDOW, TEXTURE_GAIN = 5, 8.0


class Classifier(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1], or their texture alone, to logits (N,)."""

    def __init__(
        self,
        depths: Sequence[int] = (2, 2, 4, 2),
        widths: Sequence[int] = (24, 48, 96, 192),
        sees_texture: bool = True,
    ) -> None:
        super().__init__()
        shape = {"depths": list(depths), "widths": list(widths)}
        self.settings = {**shape, "sees_texture": sees_texture}
        self.sees_texture = sees_texture
        # From scratch and in a few thousand steps, blocks have to count from the start.
        self.network = ConvNeXt(Shape(depths, widths), classes=1, layer_scale=1.0)

    def forward(self, images: Tensor) -> Tensor:
        """The logit of each picture."""
        return self.network(texture(images) if self.sees_texture else 2 * images - 1)[:, 0]

    def about(self, watermark: str) -> dict[str, str]:
        """What a weight file says of the filter its weights belong to."""
        return {"watermark": watermark, "settings": json.dumps(self.settings)}


def texture(images: Tensor) -> Tensor:
    """What pictures have beyond their surroundings, made large.

    A mark is faint. A small network that learns from scratch does not find it under the picture.
    """
    reach = TEXTURE_WINDOW // 2
    padded = functional.pad(images, (reach,) * 4, mode="reflect")
    return TEXTURE_GAIN * (images - functional.avg_pool2d(padded, TEXTURE_WINDOW, stride=1))


def scores(classifier: Classifier, images: Images) -> Scores:
    """The probability that each of ``images`` (N, 3, H, W) is genuine."""
    return in_chunks(classifier, torch.from_numpy(images)).double().sigmoid().numpy()


def load_classifier(path: Path, watermark: str) -> Classifier:
    """The classifier in ``path``, provided that it was trained for ``watermark``."""
    about, state = read_weights(path, of="a filter")
    try:
        classifier, trained_for = Classifier(**json.loads(about["settings"])), about["watermark"]
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptModelError(f"{path} cannot be read as a filter ({error})") from error
    if trained_for != watermark:
        raise CorruptModelError(
            f"{path} was trained for the watermark '{trained_for}', not for '{watermark}'"
        )
    require_match(state, classifier.state_dict(), path, of="a ConvNeXt classifier")
    classifier.load_state_dict(state)
    return classifier.eval()
