"""The paper's hash as PyTorch modules (appendix B.1): pooling, head, and the two together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

EMBEDDING = 512
"""Width of the head's hidden layer and of its embedding (D in the paper)."""
CODE_BITS = 256
"""Logits of the head (L0 in the paper)."""
SEED = 20270
"""Of the projection from one to the other."""


class Backbone(nn.Module):
    """Pictures (N, 3, size, size) in [0, 1] to pooled features (N, features)."""

    size: int
    features: int
    settings: dict[str, Any]
    """What it takes to build this backbone again, besides its weights."""


def pool_patches(patches: Tensor) -> Tensor:
    """s(x) = [mean; std] over patches, channel by channel: (N, P, d) -> (N, 2d)."""
    return torch.cat([patches.mean(dim=1), patches.std(dim=1, correction=0)], dim=1)


def orthogonal_projection() -> Tensor:
    """The matrix R (512, 256) with orthonormal columns, from a fixed seed.

    Gaussian, then QR with the diagonal of the triangular factor made positive, which makes
    the factorisation unique. ``RandomState`` is used because NumPy promises never to change
    its stream. A trained hash stores its R and never recomputes it.
    """
    gaussian = np.random.RandomState(SEED).standard_normal((EMBEDDING, CODE_BITS))
    basis, triangle = np.linalg.qr(gaussian)
    return torch.from_numpy((basis * np.sign(np.diag(triangle))).astype(np.float32))


class HashHead(nn.Module):
    """The paper's head: pooled features to a unit embedding, and on to logits."""

    projection: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.hidden = nn.Linear(features, EMBEDDING)
        self.output = nn.Linear(EMBEDDING, EMBEDDING)
        # With the unit embedding spread evenly, logits start at magnitude one.
        self.log_scale = nn.Parameter(torch.tensor(float(EMBEDDING)).sqrt().log())
        self.register_buffer("projection", orthogonal_projection())

    def embed(self, pooled: Tensor) -> Tensor:
        """e(x), of unit length: (N, features) -> (N, 512)."""
        h = self.output(functional.gelu(self.hidden(self.norm(pooled))))
        return functional.normalize(h, dim=1)

    def logits_of(self, embedding: Tensor) -> Tensor:
        """z(x) = alpha R^T e(x): (N, 512) -> (N, 256)."""
        return self.log_scale.exp() * embedding @ self.projection

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled features (N, features) to hash logits (N, 256)."""
        return self.logits_of(self.embed(pooled))


class HashNetwork(nn.Module):
    """A backbone and the head on top of it: pictures in, logits out."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = HashHead(backbone.features)

    def forward(self, images: Tensor) -> Tensor:
        """Pictures (N, 3, size, size) in [0, 1] to hash logits (N, 256)."""
        return self.head(self.backbone(images))
