"""The roles a plugin can play. This file is the contract between the SDK and a vendor.

Inside the contract arrays are NumPy: pictures are ``float32``, (N, 3, H, W), RGB in [0, 1];
payloads, messages and codes are ``uint8`` bits, (N, L); decoders and hashes return logits
whose sign is the bit (``> 0`` is 1). A plugin never sees anything else: before ``embed``,
``decode`` or ``logits`` of a subclass runs, the SDK turns what the caller has (a path, a
PIL image, an array, a tensor, a list of these) into such an array of the size the plugin
asked for, checks it, and afterwards gives back the kind it was given (see ``door``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from coverlock_sdk import door
from coverlock_sdk.locking.calibration import Calibration

if TYPE_CHECKING:
    import torch

Images = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]


class Watermark(ABC):
    """What a vendor implements: an encoder E(x, p) and a decoder D(x) at one picture size."""

    name: str
    bits: int
    native_size: tuple[int, int]
    """Height and width the networks work at; the SDK handles every other size."""

    calibration: Calibration = Calibration()
    """How far this decoder's logits can be trusted; fit it with ``coverlock calibrate``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        door.guard(cls, "embed", door.embedding)
        door.guard(cls, "decode", door.decoding)

    @abstractmethod
    def embed(self, images: Images, payloads: Bits) -> Images:
        """Return ``images`` (N, 3, *native_size) with ``payloads`` (N, bits) embedded."""

    @abstractmethod
    def decode(self, images: Images) -> Logits:
        """Return the logits (N, bits) of the payload that ``images`` seem to carry."""

    def decoder_module(self) -> torch.nn.Module | None:
        """The decoder as a PyTorch module (N, 3, *native_size) -> (N, bits), where there is one.

        Export and feature analysis need it; embedding and verification do not.
        """
        return None

    def encoder_module(self) -> torch.nn.Module | None:
        """The encoder as a PyTorch module, where there is one; only export needs it.

        Pictures (N, 3, *native_size) and payloads (N, bits), floats of 0 and 1, to marked pictures.
        """
        return None


class ImageHash(ABC):
    """A public, distortion-stable description of a picture: 256 logits, and no secret."""

    name: str
    input_size: tuple[int, int]
    """Height and width that ``logits`` wants; the SDK resamples to it."""

    calibration: Calibration = Calibration()
    """How far a logit of this magnitude can be trusted after the training distortions."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        door.guard(cls, "logits", door.hashing)

    @abstractmethod
    def logits(self, images: Images) -> Logits:
        """Return the 256 hash logits of each of ``images`` (N, 3, *input_size)."""

    def module(self) -> torch.nn.Module | None:
        """The hash as a PyTorch module (N, 3, *input_size) -> (N, 256), where there is one.

        Export needs it; embedding and verification do not.
        """
        return None


class ProtectedWatermark(ABC):
    """A watermark behind a defence: pictures of any kind and size, messages, verdicts."""

    watermark: Watermark
    bits: int
    """Length of a message; at most the watermark's own payload."""

    fpr: float
    """Probability with which an unmarked picture may be accepted."""

    @abstractmethod
    def embed(self, pictures: Any, messages: Any) -> Any:
        """Return ``pictures`` carrying ``messages``, each of the kind it was given as."""

    @abstractmethod
    def decode(self, pictures: Any) -> Logits:
        """Return the logits (N, bits) of the messages that ``pictures`` seem to carry."""

    @abstractmethod
    def verify(self, pictures: Any, messages: Any) -> Any:
        """Say whether a picture carries its message: a ``Verdict``, or a list of them for many."""


class Defense(ABC):
    """A way to make a watermark harder to forge, without touching its networks."""

    name: ClassVar[str]

    @abstractmethod
    def protect(self, watermark: Watermark) -> ProtectedWatermark:
        """Put ``watermark`` behind this defence."""


class Attack(ABC):
    """A forger: makes pictures of its own verify as the vendor's, from released pictures only."""

    name: ClassVar[str]

    @abstractmethod
    def forge(self, references: Images, targets: Images) -> Images:
        """Return ``targets`` made to look marked like ``references``, clipped to [0, 1]."""


class OracleAttack(ABC):
    """A forger that also holds the unmarked originals: an upper bound, not a real attacker."""

    name: ClassVar[str]

    @abstractmethod
    def forge(self, references: Images, targets: Images, *, originals: Images) -> Images:
        """Like ``Attack.forge``, with the unmarked ``originals`` of ``references`` at hand."""
