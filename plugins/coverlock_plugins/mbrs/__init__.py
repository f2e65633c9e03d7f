"""MBRS (Jia, Fang, Zhang 2021): robust to JPEG, and easily transplanted.

``mbrs`` is a narrower network that was trained here and ships with the package; ``mbrs-100`` and
``mbrs-256`` are the same weights on larger squares, for the paper's lengths of payload;
``mbrs-published`` is whatever ``coverlock import mbrs:bits=256 CHECKPOINT`` has converted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from coverlock_plugins.networks.watermark import StoredWatermark, imported_weights
from coverlock_sdk.errors import CorruptModelError, CoverLockError
from coverlock_sdk.hookspecs import Register, hookimpl

if TYPE_CHECKING:
    from torch import Tensor

    from coverlock_plugins.mbrs.network import MbrsNetwork
    from coverlock_training.watermarks.trainable import Trainable

MOST_DOUBLINGS = 10
"""A checkpoint that claims more of them does not match any network that is built."""


class Mbrs(StoredWatermark):
    """The reference checkpoint, or weights of your own."""

    name = "mbrs"
    reference: Path | None = Path(__file__).parent / "weights" / "mbrs.safetensors"

    larger: ClassVar[Mapping[str, int]] = {}
    """Settings that differ from those in the weight file: a cell of 16 pixels is a bit anywhere."""

    @classmethod
    def build(cls, **settings: Any) -> MbrsNetwork:
        """The network of these settings, untrained."""
        from coverlock_plugins.mbrs.network import MbrsNetwork

        return MbrsNetwork(**{**settings, **cls.larger})


class Mbrs100(Mbrs):
    """A square of 10 x 10 bits."""

    name, larger = "mbrs-100", {"bits": 100, "size": 160}


class Mbrs256(Mbrs):
    """A square of 16 x 16 bits, as long as the paper's."""

    name, larger = "mbrs-256", {"bits": 256, "size": 256}


class PublishedMbrs(Mbrs):
    """The published weights."""

    name, reference = "mbrs-published", None


def trainable() -> Trainable:
    """The published settings, and those of the reference checkpoint."""
    from coverlock_training.watermarks.noise import EVERYDAY, Identity, JpegMask, RealJpeg
    from coverlock_training.watermarks.trainable import Trainable
    from coverlock_training.watermarks.trainer import WatermarkRecipe

    published = WatermarkRecipe(
        message_weight=10.0,
        noise=(JpegMask(), RealJpeg((50, 50)), Identity()),
        batch=16,
        steps=60_000,
    )
    reference = WatermarkRecipe(
        message_weight=10.0, image_weight=3.0, noise=EVERYDAY, batch=8, steps=1800, decay=800
    )
    return Trainable(Mbrs.build, published, {"bits": 64, "size": 128, "channels": 16}, reference)


def convert(file: Path, /, bits: int | None = None) -> Path:
    """Turn a published checkpoint (``EC_*.pth``) of either network into safetensors.

    ``bits`` is the length of its messages, which only the network with diffusion tells by itself.
    """
    from coverlock_plugins.networks.weights import import_network, unwrapped
    from coverlock_sdk.models.checkpoints import read_checkpoint

    state = unwrapped(read_checkpoint(file), file)
    state = {name: value for name, value in state.items() if not name.startswith("noise.")}
    settings = _settings(state, file, bits)
    return import_network(Mbrs.build, settings, state, file, "MBRS", imported_weights("mbrs"))


def _settings(state: Mapping[str, Tensor], file: Path, bits: int | None) -> dict[str, int]:
    """The network that a checkpoint is for, as far as its tensors tell.

    The encoder doubles a square of message values until it is as large as the picture. The tensors
    tell how often, and with diffusion how many values and bits there are. Without diffusion the
    same tensors serve squares and pictures of any size.
    """
    spreading, gathering = "encoder.message_duplicate_layer.bias", "decoder.message_layer.bias"
    diffusion = 0
    if spreading in state and gathering in state:
        diffusion, held = state[spreading].numel(), state[gathering].numel()
        if bits not in (None, held):
            raise CoverLockError(f"{file} is for {held} bits, not for {bits}: leave the option out")
        bits, doubling = held, "encoder.message_pre_layer_1"
    elif "encoder.message_pre_layer.0.layers.0.weight" in state:
        doubling = "encoder.message_pre_layer.1"
    else:
        raise CorruptModelError(f"{file} is not an MBRS checkpoint: it has no message processor")
    doublings = sum(
        bool(re.fullmatch(rf"{re.escape(doubling)}\.layers\.\d+\.layers\.0\.weight", name))
        for name in state
    )
    cell = 2 ** min(doublings, MOST_DOUBLINGS)
    if bits is None:
        fits = ", ".join(f"{side**2} bits at {side * cell} pixels" for side in (8, 16, 32))
        raise CoverLockError(
            f"the tensors in {file} fit messages of any square length, one bit for each "
            f"{cell} x {cell} pixels ({fits}): say how many bits, as in "
            "'coverlock import mbrs:bits=256 FILE'"
        )
    if not isinstance(bits, int) or bits < 1:
        raise CoverLockError(f"an MBRS message has a whole number of bits, not {bits!r}")
    return {"bits": bits, "size": math.isqrt(diffusion or bits) * cell, "diffusion": diffusion}


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer all under their names."""
    for kind in (Mbrs, Mbrs100, Mbrs256, PublishedMbrs):
        register(kind)


@hookimpl
def register_networks(register: Register) -> None:
    """Let ``coverlock train watermark mbrs`` train it."""
    register(trainable, "mbrs")


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import mbrs`` convert the authors' files."""
    register(convert, "mbrs")
