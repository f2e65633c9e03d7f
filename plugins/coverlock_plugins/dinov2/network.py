"""DINOv2 (Oquab et al. 2023), without registers, under the parameter names of Meta's own files.

One class covers all four sizes. It sees pictures of one size: the positions of the published files
belong to a grid of 37 x 37 patches, and ``resize_positions`` fits them to another grid once, before
they are loaded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.dinov2.head import Backbone, pool_patches

PATCH = 14
"""Pixels along a patch."""
GRID = 37
"""Patches along the pictures that DINOv2 was trained on."""
OFFSET = 0.1
"""What Meta's code adds to the side of the new grid, so that rounding never loses a patch."""
EPSILON = 1e-6
"""Of every layer norm."""
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and deviation of the colours that it was trained on."""


class Dinov2(nn.Module):
    """Normalised pictures (N, 3, 14 side, 14 side) to tokens (N, 1 + side^2, width).

    The first token is that of the class, the others are those of the patches.
    """

    def __init__(
        self, width: int, layers: int, heads: int, gated: bool = False, side: int = GRID
    ) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + side**2, width))
        self.patch_embed = PatchEmbedding(width)
        self.blocks = nn.Sequential(*(Block(width, heads, gated) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        """The tokens of each picture after the last norm."""
        patches = self.patch_embed(images)
        first = self.cls_token.expand(patches.shape[0], -1, -1)
        return self.norm(self.blocks(torch.cat([first, patches], 1) + self.pos_embed))


class PatchEmbedding(nn.Module):
    """A linear map of each patch: (N, 3, 14 side, 14 side) -> (N, side^2, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, PATCH, stride=PATCH)

    def forward(self, images: Tensor) -> Tensor:
        """Row by row."""
        features: Tensor = self.proj(images)
        return features.flatten(2).transpose(1, 2)


class Block(nn.Module):
    """Attention and a feed-forward network, each normed, scaled and added: (N, T, width)."""

    def __init__(self, width: int, heads: int, gated: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, EPSILON), nn.LayerNorm(width, EPSILON)
        self.attn = Attention(width, heads)
        self.mlp = SwiGlu(width) if gated else Mlp(width)
        self.ls1, self.ls2 = LayerScale(width), LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class Attention(nn.Module):
    """Self-attention whose queries, keys and values come out of one matrix."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) -> the same."""
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)  # (N, heads, T, width / heads)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """The feed-forward network of S, B and L."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) -> the same."""
        return self.fc2(functional.gelu(self.fc1(x)))


class SwiGlu(nn.Module):
    """The feed-forward network of the giant: one half of the hidden layer gates the other.

    It is two thirds as wide as an ``Mlp``, rounded up to a multiple of eight.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = (4 * width * 2 // 3 + 7) // 8 * 8
        self.w12, self.w3 = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) -> the same."""
        gate, value = self.w12(x).chunk(2, dim=-1)
        return self.w3(functional.silu(gate) * value)


class LayerScale(nn.Module):
    """A learned factor for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) -> the same."""
        return x * self.gamma


def resize_positions(positions: Tensor, side: int) -> Tensor:
    """Positions (1, 1 + 37^2, width) for a grid of ``side`` patches, as Meta's code computes them.

    It interpolates bicubically, and from the scale that contains its offset rather than from the
    sizes of both grids.
    """
    if side == GRID:
        return positions
    first, patches = positions[:, :1], positions[:, 1:]
    scale = (side + OFFSET) / GRID
    grid = functional.interpolate(
        patches.reshape(1, GRID, GRID, -1).permute(0, 3, 1, 2),
        scale_factor=(scale, scale),
        mode="bicubic",
    )
    return torch.cat([first, grid.flatten(2).transpose(1, 2)], 1)


class Dinov2Backbone(Backbone):
    """A frozen DINOv2 whose patch tokens are pooled as the paper does."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, model: Dinov2, size: int, settings: dict[str, Any]) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()
        self.size, self.features = size, 2 * model.norm.weight.numel()
        self.settings = settings
        for name, values in zip(("mean", "deviation"), IMAGENET, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, size, size) in [0, 1] -> mean and deviation of each channel, (N, features)."""
        tokens: Tensor = self.model((images - self.mean) / self.deviation)
        return pool_patches(tokens[:, 1:])

    def train(self, mode: bool = True) -> Dinov2Backbone:
        """Stay in evaluation mode: the backbone is frozen."""
        return super().train(False)
