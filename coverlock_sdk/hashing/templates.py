"""What a hash can be told of a vendor's templates, and how it then reads logits.

A file keeps the mean logits of a few examples of each template. A picture near one of these means
is read by how it differs from it; pictures that are near none are read as before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Logits
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.hashing.projection import CODE_BITS

SCHEMA = "1"
TINY = 1e-12


class Gate(NamedTuple):
    """How near a picture has to be to a template to be read by how it differs from it."""

    nearness: float = 0.55
    """The cosine between its logits and the nearest mean at which half of the mean is taken off.

    Two pictures of a template whose cosines are 0.69 agree in 66 % of bits."""
    steepness: float = 40.0
    """How fast that share grows with the cosine."""


USUAL = Gate()


@dataclass(frozen=True)
class Templates:
    """What a hash is told: mean logits of pictures of each template, as it may appear."""

    hash: str
    """The hash that the logits are of."""
    means: Logits
    """(K, 256): one or more rows for each template."""
    probe: npt.NDArray[np.uint8]
    """(32,): tells other weights of the same name apart."""
    gate: Gate = USUAL

    def without(self, logits: Logits) -> Logits:
        """Logits (N, 256) less what pictures of a near template share."""
        _, share, among = self._near(logits)
        rest = logits - (share * among) @ self.means
        return rest.astype(np.float32)

    def pull(self, logits: Logits, gradient: Logits) -> Logits:
        """Carry a gradient (N, 256) of ``without(logits)`` back to ``logits``."""
        cosines, share, among = self._near(logits)
        of_shares = -gradient @ self.means.T
        mean = (among * of_shares).sum(axis=1, keepdims=True)
        nearest = cosines == cosines.max(axis=1, keepdims=True)
        of_scores = share * (among * (of_shares - mean) + nearest * (1 - share) * mean)
        of_cosines = self.gate.steepness * of_scores
        lengths = np.maximum(np.linalg.norm(logits, axis=1, keepdims=True), TINY)
        along = (of_cosines * cosines).sum(axis=1, keepdims=True) * logits / lengths
        pulled = gradient + (of_cosines @ self.directions - along) / lengths
        return pulled.astype(np.float32)

    def _near(self, logits: Logits) -> tuple[Logits, Logits, Logits]:
        """Cosines with each mean (N, K), the share to take off (N, 1), and of which means (N, K).

        How much is taken off depends on the nearest alone, however many are like it.
        """
        lengths = np.linalg.norm(logits, axis=1, keepdims=True)
        cosines = logits @ self.directions.T / np.maximum(lengths, TINY)
        nearest = cosines.max(axis=1, keepdims=True)
        share = 0.5 * (1 + np.tanh(0.5 * self.gate.steepness * (nearest - self.gate.nearness)))
        weights = np.exp(self.gate.steepness * (cosines - nearest))
        among = weights / weights.sum(axis=1, keepdims=True)
        return cosines, share.astype(np.float32), among.astype(np.float32)

    @property
    def directions(self) -> Logits:
        """The means, each of unit length."""
        lengths = np.linalg.norm(self.means, axis=1, keepdims=True)
        directions: Logits = self.means / np.maximum(lengths, TINY)
        return directions

    @property
    def digest(self) -> str:
        """What tells these templates from others."""
        read_by = repr((SCHEMA, *self.gate)).encode()
        return hashlib.sha256(read_by + self.means.tobytes()).hexdigest()[:8]

    def save(self, path: Path) -> None:
        """Write the templates to a file."""
        from safetensors.numpy import save_file

        gate = {name: repr(value) for name, value in self.gate._asdict().items()}
        told = {"schema": SCHEMA, "hash": self.hash, **gate}
        save_file({"means": self.means, "probe": self.probe}, path, metadata=told)

    @classmethod
    def load(cls, path: Path) -> Templates:
        """The templates in a file."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                told = file.metadata() or {}
                means, probe = file.get_tensor("means"), file.get_tensor("probe")
                gate = Gate(*(float(told[name]) for name in Gate._fields))
                loaded, schema = cls(told["hash"], means, probe, gate), told["schema"]
        except FileNotFoundError:
            raise MissingModelError(
                f"there are no templates in {path}: make the file with 'coverlock train templates'"
            ) from None
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise CorruptModelError(
                f"{path} does not hold templates ({error}): make it with "
                "'coverlock train templates'"
            ) from error
        if schema != SCHEMA:
            raise CorruptModelError(
                f"{path} holds templates of schema {schema}, which this version cannot read: "
                "install the coverlock-sdk that made it"
            )
        loaded._require_sound(path)
        return loaded

    def _require_sound(self, path: Path) -> None:
        shapes = self.means.shape[1:], self.probe.shape
        kinds = self.means.dtype.name, self.probe.dtype.name
        sound = shapes == ((CODE_BITS,), (CODE_BITS // 8,)) and kinds == ("float32", "uint8")
        numbers = (self.means, np.array(self.gate))
        if not sound or not len(self.means) or not all(np.isfinite(n).all() for n in numbers):
            raise CorruptModelError(
                f"{path} does not hold templates (its numbers are damaged): make it with "
                "'coverlock train templates'"
            )
