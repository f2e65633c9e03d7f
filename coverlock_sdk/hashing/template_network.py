"""A hash that was told templates, as a PyTorch module, for export and for attacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_sdk.arrays import Logits
from coverlock_sdk.hashing.templates import NEARNESS, STEEPNESS


class TemplateNetwork(nn.Module):
    """Pictures to hash logits (N, 256), less what pictures of a near template share."""

    means: Tensor
    directions: Tensor

    def __init__(self, plain: nn.Module, means: Logits) -> None:
        super().__init__()
        self.plain = plain
        self.register_buffer("means", torch.from_numpy(means))
        self.register_buffer("directions", functional.normalize(self.means, dim=1))

    def forward(self, images: Tensor) -> Tensor:
        """As ``Templates.without`` has it."""
        logits: Tensor = self.plain(images)
        cosines = functional.normalize(logits, dim=1) @ self.directions.T
        scores = STEEPNESS * (cosines - NEARNESS)
        none = torch.zeros_like(scores[:, :1])
        shares = torch.cat([none, scores], dim=1).softmax(dim=1)[:, 1:]
        return logits - shares @ self.means
