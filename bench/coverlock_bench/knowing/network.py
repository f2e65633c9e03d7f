"""Key recovery by a small network, which could also learn what is not a mixture of logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released, directions
from coverlock_sdk.arrays import Bits, Logits


@dataclass(frozen=True)
class SmallNetwork:
    """Has the decoder and released pictures of one identifier; one hidden layer."""

    hidden: int = 256
    steps: int = 300
    rate: float = 3e-3
    decay: float = 1e-2

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """What the trained network says of each target."""
        import torch

        torch.manual_seed(int(rng.integers(2**31)))
        scale = np.sqrt(targets.shape[1])
        inputs = torch.from_numpy(scale * released.directions).float()
        wanted = torch.from_numpy(released.payloads).float()
        model = torch.nn.Sequential(
            torch.nn.Linear(inputs.shape[1], self.hidden),
            torch.nn.GELU(),
            torch.nn.Dropout(0.3),
            torch.nn.Linear(self.hidden, wanted.shape[1]),
        )
        optimiser = torch.optim.AdamW(model.parameters(), lr=self.rate, weight_decay=self.decay)
        for _ in range(self.steps):
            batch = torch.randint(len(inputs), (min(len(inputs), 512),))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                model(inputs[batch]), wanted[batch]
            )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            answers = model.eval()(torch.from_numpy(scale * directions(targets)).float())
        return (answers.numpy() > 0).astype(np.uint8)
