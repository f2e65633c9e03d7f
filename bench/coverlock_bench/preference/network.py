"""The network that scores how unmarked a picture looks, after the authors' published one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.convnext.network import TINY, ConvNeXtV2, LayerNorm2d, Shape

SMALL = Shape((2, 2, 2, 1), (32, 64, 128, 256))
"""The network that ships with the package: a third of the published width."""

PUBLISHED = TINY


PREFIXES = {
    "convnext.": "trunk.",
    "pixel_decoder.output_upscaling.0.upsample_block.2.": "mix.",
    "pixel_decoder.output_upscaling.0.upsample_block.3.": "norm.",
    "pixel_decoder.linear.": "score.",
}
"""Names of modules in the authors' checkpoint, and here."""


class PreferenceNetwork(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1] to scores (N,): the higher, the less marked they look."""

    def __init__(self, shape: Shape = SMALL) -> None:
        super().__init__()
        last = shape.widths[-1]
        self.shape = shape
        self.trunk = ConvNeXtV2(shape)
        self.mix = nn.Conv2d(last, last, 3, bias=False)
        self.norm = LayerNorm2d(last)
        self.score = nn.Linear(last, 1)

    def forward(self, images: Tensor) -> Tensor:
        """The spatial mean of the mixed features, weighted to one number."""
        x = self.trunk(2 * images - 1)  # (N, C, H / 32, W / 32)
        x = functional.pad(x, (1, 1, 1, 1), mode="reflect")
        x = functional.gelu(self.norm(self.mix(x)))
        scores: Tensor = self.score(x.mean(dim=(2, 3)))[:, 0]
        return scores


def lift(network: PreferenceNetwork, images: Tensor, steps: int, rate: float) -> Tensor:
    """Change ``images`` (N, 3, H, W) until they score as unmarked; returns the cleaned pictures.

    Plain gradient ascent on a perturbation that starts at zero, separately for each picture.
    """
    change = torch.zeros_like(images, requires_grad=True)
    for _ in range(steps):
        scores = network((images + change).clamp(0, 1))
        [gradient] = torch.autograd.grad(scores.sum(), change)
        with torch.no_grad():
            change += rate * gradient
    return (images + change).clamp(0, 1).detach()
