"""Decoder-only optimisation: change a picture until the decoder reads the wanted payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk.arrays import Bits


@dataclass(frozen=True)
class DecoderOnly:
    """Has the decoder with its gradients and a payload to put in; no encoder."""

    steps: int = 40
    rate: float = 0.004
    price: float = 200.0
    """Of the mean squared change."""
    margin: float = 0.5
    """How far beyond zero each logit is pushed, in units of what marked pictures show."""

    def forge(self, decoder: Any, targets: list[Picture8], payloads: Bits) -> list[Picture8]:
        """Targets from which ``decoder``, a PyTorch module, reads ``payloads``."""
        import torch

        pictures = torch.from_numpy(np.stack([to_float(target) for target in targets]))
        signs = torch.from_numpy(2 * payloads.astype(np.float32) - 1)
        change = torch.zeros_like(pictures, requires_grad=True)
        optimiser = torch.optim.Adam([change], lr=self.rate)
        for _ in range(self.steps):
            logits = decoder((pictures + change).clamp(0, 1))
            lacking = torch.relu(self.margin - signs * logits).mean(dim=1).sum()
            loss = lacking + self.price * (change**2).mean(dim=(1, 2, 3)).sum()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return [to_8_bit(p) for p in (pictures + change).clamp(0, 1).detach().numpy()]
