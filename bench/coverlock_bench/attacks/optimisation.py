"""Optimises a picture with the decoder's gradients alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from coverlock_bench.attacks.reembedding import bare_watermark
from coverlock_bench.ledger import NotMeasuredError
from coverlock_bench.photos import to_8_bit, to_float
from coverlock_sdk import NetworkAttack, Watermark
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.errors import needs
from coverlock_sdk.images.conversion import read

START = 0.7
"""Share of the budget that the search starts with."""


@dataclass(frozen=True)
class Optimisation(NetworkAttack):
    """Uses the decoder's gradients to change a target until a released payload is read from it."""

    name: ClassVar[str] = "optimisation"
    given: ClassVar[Literal["encoder", "decoder"]] = "decoder"

    steps: int = 60
    rate: float = 1 / 255
    """Adam's learning rate: the largest change of a value in the first steps."""
    least_psnr: float = 31.0
    """Limit on the change of the picture that the decoder sees."""

    def require(self, watermark: Watermark) -> None:
        """Check that the watermark has a module that returns logits, for its gradients."""
        if watermark.hard_bits or watermark.decoder_module() is None:
            raise NotMeasuredError(
                f"'{watermark.name}' has no decoder_module() that returns logits, "
                "and this attack needs its gradients"
            )

    def forge(self, references: Images, targets: Images, *, watermark: Watermark) -> Images:
        """Write the payload of the first reference into every target."""
        shown = bare_watermark(watermark).decode([to_8_bit(references[0])])
        payloads = np.repeat((shown > 0).astype(np.uint8), len(targets), axis=0)
        return self.written(targets, payloads, watermark, references[0])

    def written(
        self, targets: Images, payloads: Bits, watermark: Watermark, released: Images
    ) -> Images:
        """Change targets until the decoder reads ``payloads`` from them as 8-bit pictures.

        Some decoders have no gradient without a mark, so the search starts with the fine detail of
        a ``released`` picture (3, H, W). It drives logits up to their size in that picture.
        """
        pictures = [read(to_8_bit(target)) for target in targets]
        size = watermark.native_size or pictures[0].size
        views = np.stack([picture.view(size) for picture in pictures])
        shown = bare_watermark(watermark).decode([to_8_bit(released)])
        start = _detail(read(to_8_bit(released)).view(size))
        sure = float(np.abs(shown).mean())
        residuals = self._residuals(views, payloads, watermark, start, sure)
        moved = [p.with_residual(r) for p, r in zip(pictures, residuals, strict=True)]
        return np.stack([to_float(picture.to_bytes()) for picture in moved])

    def _residuals(
        self, views: Images, payloads: Bits, watermark: Watermark, start: Images, sure: float
    ) -> Images:
        with needs("optimisation with a decoder", "torch", "torch"):
            import torch
        module: Any = watermark.decoder_module()
        still, signs = torch.from_numpy(views), torch.from_numpy(2.0 * payloads - 1).float()
        budget = 10 ** (-self.least_psnr / 20) * still[0].numel() ** 0.5
        size = START * budget / max(float(np.linalg.norm(start)), 1e-6)
        moved = torch.from_numpy(np.repeat(size * start[None], len(views), axis=0)).float()
        moved.requires_grad_()
        adam = torch.optim.Adam([moved], lr=self.rate)
        for _ in range(self.steps):
            seen = (still + moved).clamp(0, 1)
            short = torch.relu(1 - signs * module(seen) / sure)
            if not short.any():
                break
            adam.zero_grad()
            short.sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
            with torch.no_grad():
                norms = moved.flatten(1).norm(dim=1).clamp(min=budget) / budget
                moved /= norms[:, None, None, None]
        residuals: Images = moved.detach().numpy()
        return residuals


def _detail(picture: Images) -> Images:
    """The detail that a mean over 3 x 3 pixels removes from a picture (3, H, W)."""
    shifts = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    mean = sum(np.roll(picture, shift, axis=(1, 2)) for shift in shifts) / np.float32(9)
    return picture - mean
