"""``templates``: a hash that was told what a vendor's pictures have in common.

Forms, cards and labels of one template have nearly one code, because most of what a hash sees in
them is the template. Whoever marks them knows it, so the hash can be told.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient, ImageHash
from coverlock_sdk.errors import CorruptModelError, CoverLockError
from coverlock_sdk.hashing.crowd import TOLD, probe_of, same_weights
from coverlock_sdk.hashing.templates import Templates

if TYPE_CHECKING:
    from torch import nn


class TemplateHash(ImageHash):
    """Another hash that was told templates."""

    def __init__(self, file: str | Path | None = None) -> None:
        from coverlock_sdk.loading import load_hash

        if file is None:
            raise CoverLockError(
                "the hash 'templates' needs a file: make it with 'coverlock train templates' and "
                "name it, as in load_hash('templates', file='forms.safetensors') or "
                "--hash templates:file=forms.safetensors"
            )
        self.templates = Templates.load(Path(str(file)))  # JSON reads some names as numbers
        self.plain = load_hash(self.templates.hash)
        if not same_weights(self.templates.probe, probe_of(self.plain)):
            raise CorruptModelError(
                f"the templates in {file} were made with other weights of the hash "
                f"'{self.plain.name}': make them again with 'coverlock train templates'"
            )
        self.name = f"{self.plain.name}{TOLD}{self.templates.digest}"
        self.input_size, self.calibration = self.plain.input_size, self.plain.calibration
        self.folder = self.plain.folder

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, *input_size)."""
        return self.templates.without(self.plain.logits(images))

    def differentiable(self) -> Differentiable | None:
        """The same with gradients, where the plain hash has them."""
        plain = self.plain.differentiable()
        if plain is None:
            return None

        def differentiated(images: Images) -> tuple[Logits, Gradient]:
            logits, gradient = plain(images)
            return (
                self.templates.without(logits),
                lambda weights: gradient(self.templates.pull(logits, weights)),
            )

        return differentiated

    def module(self) -> nn.Module | None:
        """The same in PyTorch, where the plain hash has a module."""
        from coverlock_sdk.hashing.template_network import TemplateNetwork

        plain = self.plain.module()
        return None if plain is None else TemplateNetwork(plain, self.templates).eval()
