"""A hash that was told templates, as a PyTorch module, for export and for attacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_sdk.hashing.templates import Templates


class TemplateNetwork(nn.Module):
    """Pictures to hash logits (N, 256), less what pictures of a near template share."""

    means: Tensor
    directions: Tensor

    def __init__(self, plain: nn.Module, templates: Templates) -> None:
        super().__init__()
        self.plain, self.gate = plain, templates.gate
        self.register_buffer("means", torch.from_numpy(templates.means))
        self.register_buffer("directions", torch.from_numpy(templates.directions))

    def forward(self, images: Tensor) -> Tensor:
        """As ``Templates.without`` has it."""
        logits: Tensor = self.plain(images)
        cosines = functional.normalize(logits, dim=1) @ self.directions.T
        nearest = cosines.amax(dim=1, keepdim=True)
        share = torch.sigmoid(self.gate.steepness * (nearest - self.gate.nearness))
        among = (self.gate.steepness * cosines).softmax(dim=1)
        return logits - (share * among) @ self.means
