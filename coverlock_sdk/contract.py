"""The roles a plugin can play. This file is the contract between the SDK and a vendor.

Everything here is array code. Pictures are ``float32``, (N, 3, H, W), RGB in [0, 1]; payloads,
messages and codes are ``uint8`` bits, (N, L); decoders and hashes return logits, and a bit is 1
where its logit is above 0. A plugin sees nothing else. The SDK turns files, PIL images, tensors and
pictures of any size into such arrays once, before it calls a plugin, and turns the answer back.

Members with a default are optional. The SDK looks for no others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.frames import WHOLE, Frame

if TYPE_CHECKING:
    import torch

Gradient = Callable[[Logits], Images]
"""Maps weights on the logits (N, dimensions) back to the pictures: their gradient."""

Differentiable = Callable[[Images], tuple[Logits, Gradient]]
"""The logits (N, dimensions) of pictures, and their gradient."""


class Watermark(ABC):
    """What a vendor implements: an encoder E(x, p) and a decoder D(x).

    For example::

        class MyMark(Watermark):
            name, bits, native_size = "my-mark", 64, (256, 256)

            def embed(self, images, payloads):
                return np.clip(images + my_residual(images, payloads), 0, 1)

            def decode(self, images):
                return my_logits(images)
    """

    name: str
    """The string that users type, as in ``wrap("my-mark")``."""

    bits: int
    """Length of a payload."""

    native_size: tuple[int, int] | None
    """Height and width the networks work at; None if they take pictures of any size as they are."""

    calibration: Calibration = Calibration()
    """How far this decoder's logits can be trusted; fit it with ``coverlock calibrate``."""

    hard_bits: bool = False
    """Whether ``decode`` returns bits, 0 and 1, instead of logits."""

    card: Mapping[str, Any] = MappingProxyType({})
    """How the weights were made, for reports: anything that JSON can hold."""

    feature_layer: str | None = None
    """Name of the module inside ``decoder_module()`` whose input the audit analyses as features."""

    @abstractmethod
    def embed(self, images: Images, payloads: Bits) -> Images:
        """Return ``images`` (N, 3, H, W) with ``payloads`` (N, bits) embedded."""

    @abstractmethod
    def decode(self, images: Images) -> Logits:
        """Return the logits (N, bits) of the payloads that ``images`` seem to carry."""

    def decoder_module(self) -> torch.nn.Module | None:
        """The decoder as a PyTorch module (N, 3, *native_size) -> (N, bits), in eval mode.

        It returns logits or, with ``hard_bits``, -1 and 1. Only export and the audit need it.
        """
        return None

    def encoder_module(self) -> torch.nn.Module | None:
        """The encoder as a PyTorch module, which only export needs.

        It takes pictures (N, 3, *native_size) and payloads (N, bits) as floats of 0 and 1.
        """
        return None


class ImageHash(ABC):
    """A public, distortion-stable code of a picture: logits, and no secret."""

    name: str
    input_size: tuple[int, int]
    """Height and width that ``logits`` takes; the SDK resamples pictures to it."""

    bands: tuple[int, ...] = (256,)
    """Logits of each band, in order. A lock takes bits from all of them and has a floor on each."""

    registers: bool = False
    """Whether the hash can compute the code of a crop in its original frame, by ``framed``."""

    calibration: Calibration = Calibration()
    """How far this hash's logits can be trusted after the training distortions."""

    folder: Path | None = None
    """Where the weights are if they did not come with the package, for reports."""

    @abstractmethod
    def logits(self, images: Images) -> Logits:
        """Return the hash logits (N, dimensions) of each of ``images`` (N, 3, *input_size)."""

    def code(self, description: Any, frame: Frame = WHOLE) -> Logits:
        """The logits (1, dimensions) of one picture, from its logits.

        A hash that registers gets the picture at ``input_size`` instead.
        """
        return np.asarray(description)[None]

    def module(self) -> torch.nn.Module | None:
        """What describes pictures (N, 3, *input_size) as a PyTorch module; only export needs it."""
        return None

    def differentiable(self) -> Differentiable | None:
        """``logits`` with gradients, without which embedding does not harden pictures."""
        return None

    @property
    def dimensions(self) -> int:
        """How many logits there are."""
        return sum(self.bands)


class ProtectedWatermark(ABC):
    """A watermark behind a defence: pictures of any kind and size, messages, verdicts."""

    watermark: Watermark

    @property
    @abstractmethod
    def bits(self) -> int:
        """Length of a message; at most the watermark's own payload."""

    @property
    @abstractmethod
    def fpr(self) -> float:
        """The probability that an unmarked picture is accepted."""

    @abstractmethod
    def embed(self, pictures: Any, messages: Any) -> Any:
        """Return ``pictures`` carrying ``messages``, each of the kind it was given as."""

    @abstractmethod
    def decode(self, pictures: Any) -> Any:
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


class Forger(ABC):
    """The common part of all attacks; implement one of the classes below."""

    name: ClassVar[str]

    references: int = 1
    """How many released pictures one forgery is made from."""

    naturals: Images | None = None
    """Unmarked pictures of the attacker's own, if the attack uses any."""

    def model_digest(self) -> str | None:
        """A digest of the attack's own model, so that results of another model are not reused."""
        return None


class Attack(Forger):
    """A forger: makes pictures of its own verify as the vendor's, from released pictures only."""

    @abstractmethod
    def forge(self, references: Images, targets: Images) -> Images:
        """Return ``targets`` made to look marked like ``references``, clipped to [0, 1]."""


class NetworkAttack(Forger):
    """A forger that also runs the vendor's own networks: a public library, or stolen weights."""

    given: ClassVar[Literal["encoder", "decoder"]]
    """What it uses: the decoder alone, or the encoder too."""

    def require(self, watermark: Watermark) -> None:
        """Raise a ``CoverLockError`` if this attack cannot be tried on ``watermark``."""

    @abstractmethod
    def forge(self, references: Images, targets: Images, *, watermark: Watermark) -> Images:
        """Like ``Attack.forge``, with the vendor's ``watermark`` at hand, but no key."""


class OracleAttack(Forger):
    """A forger that also holds the unmarked originals: an upper bound, not a real attacker."""

    @abstractmethod
    def forge(self, references: Images, targets: Images, *, originals: Images) -> Images:
        """Like ``Attack.forge``, with the unmarked ``originals`` of ``references`` at hand."""


AnyAttack = Attack | NetworkAttack | OracleAttack
