"""``templates``: a hash that was told what a vendor's pictures have in common.

Forms, cards and labels of one template have nearly one code, because most of what a hash sees in
them is the template. Whoever marks them knows it. So the hash can be told: a file keeps the mean
logits of a few examples of each template, and a picture near one of these means is read by how
it differs from it. Any other picture has the code that it had.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient, ImageHash
from coverlock_sdk.errors import CorruptModelError, CoverLockError, MissingModelError
from coverlock_sdk.hashing.crowd import TOLD, probe_of, same_weights
from coverlock_sdk.hashing.projection import CODE_BITS

if TYPE_CHECKING:
    from torch import nn

NEARNESS = 0.55
"""The cosine between a picture's logits and a mean at which half of the mean is taken off.

Unrelated pictures stay below 0.4; above 0.69 two pictures of a template agree in 66 % of bits."""

STEEPNESS = 40.0
"""How fast that share grows with the cosine."""

TINY = 1e-12


@dataclass(frozen=True)
class Templates:
    """What a hash is told: mean logits of pictures of each template, as it may appear."""

    hash: str
    """The hash that the logits are of."""
    names: tuple[str, ...]
    means: Logits
    """(K, 256): one or more rows for each template."""
    probe: npt.NDArray[np.uint8]
    """(32,): tells other weights of the same name apart."""

    def near(self, logits: Logits) -> tuple[Logits, Logits]:
        """For logits (N, 256): cosines with each mean (N, K), and the share of each to take off."""
        lengths = np.linalg.norm(logits, axis=1, keepdims=True)
        cosines = logits @ self._directions.T / np.maximum(lengths, TINY)
        scores = STEEPNESS * (cosines - NEARNESS)
        most = np.maximum(scores.max(axis=1, keepdims=True), 0)  # the score of "no template" is 0
        weights = np.exp(scores - most)
        shares = weights / (np.exp(-most) + weights.sum(axis=1, keepdims=True))
        return cosines.astype(np.float32), shares.astype(np.float32)

    def without(self, logits: Logits) -> Logits:
        """Logits (N, 256) less what pictures of a near template share."""
        rest: Logits = logits - self.near(logits)[1] @ self.means
        return rest

    def pull(self, logits: Logits, gradient: Logits) -> Logits:
        """Carry a gradient (N, 256) of ``without(logits)`` back to ``logits``."""
        cosines, shares = self.near(logits)
        of_shares = -gradient @ self.means.T
        of_scores = shares * (of_shares - (shares * of_shares).sum(axis=1, keepdims=True))
        of_cosines = STEEPNESS * of_scores
        lengths = np.maximum(np.linalg.norm(logits, axis=1, keepdims=True), TINY)
        along = (of_cosines * cosines).sum(axis=1, keepdims=True) * logits / lengths
        pulled: Logits = gradient + (of_cosines @ self._directions - along) / lengths
        return pulled.astype(np.float32)

    @property
    def digest(self) -> str:
        """What tells these templates from others."""
        return hashlib.sha256(self.means.tobytes()).hexdigest()[:8]

    @property
    def _directions(self) -> Logits:
        lengths = np.linalg.norm(self.means, axis=1, keepdims=True)
        directions: Logits = self.means / np.maximum(lengths, TINY)
        return directions

    def save(self, path: Path) -> None:
        """Write the templates to a file."""
        from safetensors.numpy import save_file

        told = {"hash": self.hash, "names": "\n".join(self.names)}
        save_file({"means": self.means, "probe": self.probe}, path, metadata=told)

    @classmethod
    def load(cls, path: Path) -> Templates:
        """The templates in a file."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                told = file.metadata() or {}
                means, probe = file.get_tensor("means"), file.get_tensor("probe")
                loaded = cls(told["hash"], tuple(told["names"].split("\n")), means, probe)
        except FileNotFoundError:
            raise MissingModelError(
                f"there are no templates in {path}: make the file with 'coverlock train templates'"
            ) from None
        except (SafetensorError, KeyError, OSError) as error:
            raise CorruptModelError(
                f"{path} does not hold templates ({error}): make it with "
                "'coverlock train templates'"
            ) from error
        loaded._require_sound(path)
        return loaded

    def _require_sound(self, path: Path) -> None:
        shapes = self.means.shape[1:], self.probe.shape
        kinds = self.means.dtype.name, self.probe.dtype.name
        sound = shapes == ((CODE_BITS,), (CODE_BITS // 8,)) and kinds == ("float32", "uint8")
        if not sound or not len(self.means) or not np.isfinite(self.means).all():
            raise CorruptModelError(
                f"{path} does not hold templates (its numbers are damaged): make it with "
                "'coverlock train templates'"
            )


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
        self.templates = Templates.load(Path(file))
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
        return None if plain is None else TemplateNetwork(plain, self.templates.means).eval()
