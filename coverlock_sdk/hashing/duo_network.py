"""The networks of ``nano`` and ``keen`` side by side, under a head that is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from coverlock_sdk.hashing.keen_network import KeenBackbone
from coverlock_sdk.hashing.network import (
    EMBEDDING,
    Backbone,
    Embedding,
    HashNetwork,
    NanoBackbone,
)
from coverlock_sdk.hashing.projection import CODE_BITS


def duo_network(coarse: Mapping[str, Any], fine: Mapping[str, Any]) -> HashNetwork:
    """Both networks with these settings, and their head, untrained."""
    backbone = DuoBackbone(coarse, fine)
    return HashNetwork(backbone, DuoHead(backbone.coarse.features, backbone.fine.features))


class DuoBackbone(Backbone):
    """Features of both, one after the other: those of ``nano`` first."""

    def __init__(self, coarse: Mapping[str, Any], fine: Mapping[str, Any]) -> None:
        super().__init__()
        self.coarse, self.fine = NanoBackbone(**coarse), KeenBackbone(**fine)
        self.size = self.fine.size
        self.features = self.coarse.features + self.fine.features
        self.settings = {
            "coarse": self.coarse.settings,
            "fine": self.fine.settings,
            "size": self.size,
        }

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, size, size) in [0, 1] -> (N, features)."""
        return torch.cat([self.coarse(images), self.fine(images)], dim=1)


class DuoHead(nn.Module):
    """Two ways to read features, and a gate that decides between them.

    Photos are read by one matrix from all features. Pictures of templates, which differ in little
    but their details, are read by another matrix from the embedding that ``keen`` has learned.
    """

    def __init__(self, coarse: int, fine: int) -> None:
        super().__init__()
        self.coarse = coarse
        self.coarse_norm = nn.LayerNorm(coarse, elementwise_affine=False)
        self.fine_norm = nn.LayerNorm(fine, elementwise_affine=False)
        self.photos = nn.Linear(coarse + fine, CODE_BITS)
        self.fine = Embedding(fine)
        self.templates = nn.Linear(EMBEDDING, CODE_BITS)
        self.gate = nn.Linear(coarse + fine, 1)

    def forward(self, pooled: Tensor) -> Tensor:
        """Features (N, coarse + fine) to logits (N, 256)."""
        normal = self.normal(pooled)
        photos, templates = self.photos(normal), self.templates(self.embed(pooled))
        logits: Tensor = photos + torch.sigmoid(self.gate(normal)) * (templates - photos)
        return logits

    def normal(self, pooled: Tensor) -> Tensor:
        """The features of each network with zero mean and unit variance."""
        coarse, fine = pooled[:, : self.coarse], pooled[:, self.coarse :]
        return torch.cat([self.coarse_norm(coarse), self.fine_norm(fine)], dim=1)

    def embed(self, pooled: Tensor) -> Tensor:
        """The embedding of ``keen``: (N, 512)."""
        return self.fine.embed(pooled[:, self.coarse :])
