"""The training objective of the hash (method section and appendix B.2 of the paper).

Symbols are the paper's: e are unit embeddings (N, D), z hash logits (N, L), c = tanh(z) soft
codes; a tilde is spelled ``_distorted``. Each of the seven terms is one function.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Objective:
    """Weights, margins and temperature of the training objective; the defaults are the paper's."""

    temperature: float = 0.1
    stability: float = 2.0
    balance: float = 5.0
    variance: float = 5.0
    independence: float = 1.0
    decorrelation: float = 0.05
    code: float = 0.25
    confidence: float = 0.0125
    deviation_target: float = 0.5
    confidence_margin: float = 1.0

    def terms(
        self, e: Tensor, e_distorted: Tensor, z: Tensor, z_distorted: Tensor
    ) -> dict[str, Tensor]:
        """Every term by name, and their weighted sum as ``total``."""
        c, c_distorted = torch.tanh(z), torch.tanh(z_distorted)
        terms = {
            "contrastive": contrastive(e, e_distorted, self.temperature),
            "stability": stability(c, c_distorted),
            "balance": balance(c),
            "variance": variance(c, c_distorted, self.deviation_target),
            "independence": independence(c),
            "decorrelation": decorrelation(c),
            "confidence": confidence(z, z_distorted, self.confidence_margin),
        }
        code = (
            self.stability * terms["stability"]
            + self.balance * terms["balance"]
            + self.variance * terms["variance"]
            + self.independence * terms["independence"]
            + self.decorrelation * terms["decorrelation"]
        )
        total = terms["contrastive"] + self.confidence * terms["confidence"] + self.code * code
        return {"total": total, **terms}


def contrastive(e: Tensor, e_distorted: Tensor, temperature: float = 0.1) -> Tensor:
    """L_con: each of the 2N views must find its partner among all the others."""
    views = torch.cat([e, e_distorted])  # (2N, D)
    similarity = views @ views.T / temperature
    similarity.fill_diagonal_(-torch.inf)
    count = len(e)
    partner = torch.arange(2 * count, device=e.device).roll(count)
    return functional.cross_entropy(similarity, partner)


def stability(c: Tensor, c_distorted: Tensor) -> Tensor:
    """L_stab: the mean squared change of a soft bit under distortion."""
    return (c - c_distorted).square().mean()


def balance(c: Tensor) -> Tensor:
    """L_bal: each bit is one for half of the pictures."""
    return c.mean(dim=0).square().mean()


def variance(c: Tensor, c_distorted: Tensor, target: float = 0.5) -> Tensor:
    """L_var: each bit varies over pictures by at least ``target`` (nu in the paper)."""
    shortfalls = [functional.relu(target - view.std(dim=0)) for view in (c, c_distorted)]
    return torch.stack(shortfalls).mean()


def independence(c: Tensor) -> Tensor:
    """L_ind: codes of different pictures have no inner product."""
    return _off_diagonal(c @ c.T / c.shape[1]).square().mean()


def decorrelation(c: Tensor, epsilon: float = 1e-4) -> Tensor:
    """L_dec: different bits are uncorrelated over pictures."""
    standardised = (c - c.mean(dim=0)) / (c.std(dim=0, correction=0) + epsilon)
    return _off_diagonal(standardised.T @ standardised / len(c)).square().mean()


def confidence(z: Tensor, z_distorted: Tensor, margin: float = 1.0) -> Tensor:
    """L_bin: logits stay away from zero by ``margin`` (rho in the paper)."""
    return functional.softplus(margin - torch.cat([z, z_distorted]).abs()).mean()


def _off_diagonal(square: Tensor) -> Tensor:
    """The entries of an (n, n) matrix that are not on its diagonal, as a vector."""
    n = len(square)
    return square.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()
