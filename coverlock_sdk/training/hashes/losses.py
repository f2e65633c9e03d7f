"""The training objective of the hash (method section and appendix B.2 of the paper).

Symbols are the paper's: e are unit embeddings (N, D), z hash logits (N, L), c = tanh(z) soft
codes; a tilde is spelled ``_distorted``. Each term is one function. The paper has seven; the
three at the end are ours and have weight zero by default. ``nano`` is trained with the first two
of them, ``keen`` with the last, too.
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
    sign: float = 0.0
    sign_margin: float = 0.5
    resemblance: float = 0.0
    resemblance_margin: float = 0.15
    likeness: float = 0.0
    likeness_margin: float = 0.2
    contrast_codes: bool = False
    """Whether the contrastive term compares soft codes instead of embeddings, half of whose
    directions the projection to a code drops."""

    def terms(
        self, e: Tensor, e_distorted: Tensor, z: Tensor, z_distorted: Tensor
    ) -> dict[str, Tensor]:
        """Every term by name, and their weighted sum as ``total``."""
        c, c_distorted = torch.tanh(z), torch.tanh(z_distorted)
        compared = e, e_distorted
        if self.contrast_codes:
            compared = functional.normalize(c, dim=1), functional.normalize(c_distorted, dim=1)
        terms = {
            "contrastive": contrastive(*compared, self.temperature),
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
        if self.sign:
            terms["sign"] = sign(z, z_distorted, self.sign_margin)
            total = total + self.sign * terms["sign"]
        if self.resemblance:
            terms["resemblance"] = resemblance(c, self.resemblance_margin)
            total = total + self.resemblance * terms["resemblance"]
        if self.likeness:
            terms["likeness"] = likeness(c, self.likeness_margin)
            total = total + self.likeness * terms["likeness"]
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


def sign(z: Tensor, z_distorted: Tensor, margin: float = 0.5) -> Tensor:
    """Ours: the distorted logit has the sign of the clean one, by ``margin``, which is the
    bit error itself made differentiable. The clean sign is a constant here."""
    bit = torch.where(z.detach() >= 0, 1.0, -1.0)
    return functional.softplus(4 * (margin - bit * z_distorted)).mean() / 4


def resemblance(c: Tensor, margin: float = 0.15) -> Tensor:
    """Ours: no two pictures of a batch have codes more alike than ``margin``.

    Where independence is about the average pair, this is about the tail, the similar
    pictures a forger would look for.
    """
    excess = functional.relu(_off_diagonal(c @ c.T / c.shape[1]) - margin)
    return excess.square().sum() / len(c)


def likeness(c: Tensor, margin: float = 0.2) -> Tensor:
    """Ours: resemblance by the angle between codes, which faint codes cannot escape.

    Pictures of one template start with logits that are both alike and small.
    """
    unit = functional.normalize(c, dim=1)
    excess = functional.relu(_off_diagonal(unit @ unit.T) - margin)
    return excess.square().sum() / len(c)


def _off_diagonal(square: Tensor) -> Tensor:
    """The entries of an (n, n) matrix that are not on its diagonal, as a vector."""
    n = len(square)
    return square.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()
