"""MBRS (Jia, Fang, Zhang 2021): robust to JPEG, and easily transplanted.

``mbrs`` is a narrower network that was trained here and ships with the package; ``mbrs-100`` and
``mbrs-256`` are the same weights on larger squares, for the paper's lengths of payload;
``mbrs-published`` is whatever ``coverlock import mbrs CHECKPOINT`` has converted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_sdk.hookspecs import Register, hookimpl
from coverlock_sdk.watermarking.network_watermark import (
    ImportedWatermark,
    StoredWatermark,
    imported_weights,
)

if TYPE_CHECKING:
    from coverlock_plugins.mbrs.network import MbrsNetwork
    from coverlock_sdk.training.watermarks.trainable import Trainable


class Mbrs(StoredWatermark):
    """The reference checkpoint, or weights of your own."""

    name = "mbrs"
    reference = Path(__file__).parent / "weights" / "mbrs.safetensors"

    @staticmethod
    def build(**settings: Any) -> MbrsNetwork:
        """The network of these settings, untrained."""
        from coverlock_plugins.mbrs.network import MbrsNetwork

        return MbrsNetwork(**settings)


class Mbrs100(Mbrs):
    """A square of 10 x 10 bits: the network is convolutional, and a cell of 16 pixels a bit."""

    name = "mbrs-100"

    @staticmethod
    def build(**settings: Any) -> MbrsNetwork:
        """The network of these settings, for a larger picture."""
        return Mbrs.build(**{**settings, "bits": 100, "size": 160})


class Mbrs256(Mbrs):
    """A square of 16 x 16 bits, as long as the paper's."""

    name = "mbrs-256"

    @staticmethod
    def build(**settings: Any) -> MbrsNetwork:
        """The network of these settings, for a larger picture."""
        return Mbrs.build(**{**settings, "bits": 256, "size": 256})


class PublishedMbrs(ImportedWatermark, Mbrs):
    """The published weights."""

    name, system = "mbrs-published", "mbrs"


def trainable() -> Trainable:
    """The published settings, and those of the reference checkpoint."""
    from coverlock_sdk.training.watermarks.noise import EVERYDAY, Identity, JpegMask, RealJpeg
    from coverlock_sdk.training.watermarks.trainable import Trainable
    from coverlock_sdk.training.watermarks.trainer import WatermarkRecipe

    published = WatermarkRecipe(
        message_weight=10.0,
        adversarial_weight=1e-4,
        discriminator_blocks=4,
        noise=(JpegMask(), RealJpeg((50, 50)), Identity()),
        batch=16,
        steps=60_000,
    )
    reference = WatermarkRecipe(
        message_weight=10.0, image_weight=3.0, noise=EVERYDAY, batch=8, steps=1800, decay=800
    )
    return Trainable(Mbrs.build, published, {"bits": 64, "size": 128, "channels": 16}, reference)


def convert(file: Path) -> Path:
    """Turn a published checkpoint (``EC_*.pth``) of either network into safetensors."""
    from coverlock_sdk.errors import CorruptModelError
    from coverlock_sdk.models.checkpoints import read_checkpoint
    from coverlock_sdk.watermarking.weights import import_network, unwrapped

    state = unwrapped(read_checkpoint(file), file)
    state = {name: value for name, value in state.items() if not name.startswith("noise.")}
    spreading, gathering = "encoder.message_duplicate_layer.bias", "decoder.message_layer.bias"
    settings: dict[str, int] = {}
    if spreading in state and gathering in state:
        diffusion, bits = state[spreading].numel(), state[gathering].numel()
        settings = {"bits": bits, "size": 128, "diffusion": diffusion}
    elif "encoder.message_pre_layer.0.layers.0.weight" not in state:
        raise CorruptModelError(f"{file} is not an MBRS checkpoint: it has no message processor")
    target = imported_weights("mbrs")
    return import_network(Mbrs.build, settings, state, file, "MBRS", target)


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
