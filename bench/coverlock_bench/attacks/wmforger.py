"""WMForger (Soucek et al. 2025): clean a marked picture until it looks unmarked; paste the rest.

A preference model scores how unmarked a picture looks. Gradient ascent on its score removes what
the model considers a mark, and the difference is the stolen residual. One marked picture is enough.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coverlock_bench.attacks.residuals import first, pasted
from coverlock_sdk import Attack
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import needs
from coverlock_sdk.images.resampling import resample

PUBLISHED_RATE = 0.05


@dataclass(frozen=True)
class PreferenceResidual(Attack):
    """The residual that a preference model removes from one marked picture."""

    name: ClassVar[str] = "wmforger"

    model: str = "small"
    """"small" ships with the package, "official" is the authors' model once imported; or a file."""
    side: int = 256
    """Side at which pictures are cleaned: the published 768 takes minutes per picture on a CPU."""
    steps: int = 50
    """As in the authors' command; their paper uses 500."""
    rate: float | None = None
    """Learning rate of the ascent. None means the published 0.05 for the authors' model. For others
    it means 0.05 at 64 pixels, growing with size: scores are means over a picture, so the gradient
    of one pixel shrinks as pictures grow."""
    strength: float = 1.0
    references: int = 1
    """How many residuals to average; the authors use one."""

    def forge(self, references: Images, targets: Images) -> Images:
        """Add the stolen residual to every target."""
        residual = self.residuals(first(references, self.references)).mean(axis=0)
        return pasted(residual, targets, self.strength)

    def model_digest(self) -> str:
        """A digest that changes with the file of the preference model."""
        with needs("the attack 'wmforger'", "PyTorch", "torch"):
            from coverlock_bench.preference.weights import preference_file
        with preference_file(self.model) as path:
            return hashlib.sha256(path.read_bytes()).hexdigest()

    def residuals(self, references: Images) -> Images:
        """What cleaning removes from each of ``references``, at their own size."""
        with needs("the attack 'wmforger'", "PyTorch", "torch"):
            import torch

            from coverlock_bench.preference.network import lift
            from coverlock_bench.preference.weights import load_preference
        network = load_preference(self.model)
        size = (references.shape[-2], references.shape[-1])
        taken = np.empty_like(references)
        for row, picture in enumerate(references):
            marked = torch.from_numpy(np.array(resample(picture, (self.side, self.side)))[None])
            cleaned = lift(network, marked, self.steps, self._rate())
            taken[row] = resample((marked - cleaned)[0].numpy(), size)
        return taken

    def _rate(self) -> float:
        if self.rate is not None:
            return self.rate
        return PUBLISHED_RATE if self.model == "official" else PUBLISHED_RATE * self.side / 64
