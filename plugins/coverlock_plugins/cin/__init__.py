"""CIN (Ma et al. 2022): an invertible network, 30 bits at 128 pixels, fully transplantable.

``cin`` is a smaller network that was trained here and ships with the package, without the second
decoder for JPEG files; ``cin-published`` is what ``coverlock import cin CHECKPOINT`` has converted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_plugins.networks.watermark import StoredWatermark, imported_weights
from coverlock_sdk.hookspecs import Register, hookimpl

if TYPE_CHECKING:
    from coverlock_plugins.cin.network import CinNetwork
    from coverlock_training.watermarks.trainable import Trainable


class Cin(StoredWatermark):
    """The reference checkpoint, or weights of your own."""

    name = "cin"
    reference: Path | None = Path(__file__).parent / "weights" / "cin.safetensors"

    @staticmethod
    def build(**settings: Any) -> CinNetwork:
        """The network of these settings, untrained."""
        from coverlock_plugins.cin.network import CinNetwork

        return CinNetwork(**settings)


class PublishedCin(Cin):
    """The published weights."""

    name, reference = "cin-published", None


def trainable() -> Trainable:
    """The published settings, and those of the reference checkpoint."""
    from coverlock_training.watermarks import noise
    from coverlock_training.watermarks.trainable import Trainable
    from coverlock_training.watermarks.trainer import WatermarkRecipe

    published = WatermarkRecipe(
        noise=(
            noise.RealJpeg((50, 50)),
            noise.Crop((0.035, 0.035), centred=0.0),
            noise.Cropout((0.3, 0.3)),
            noise.Resize((0.5, 0.5), nearest=True),
            noise.KernelBlur((2.0, 2.0), width=7),
            noise.SaltPepper((0.1, 0.1)),
            noise.Gaussian((0.25, 0.25)),
            noise.Dropout((0.3, 0.3)),
            noise.Brightness((1.0, 2.0)),
            noise.Contrast((1.0, 2.0)),
            noise.Saturation((1.0, 2.0)),
            noise.Hue((-0.1, 0.1)),
        ),
        rate=1e-4,
        batch=32,
        steps=16_000,
    )
    # Without a start that favours the message, fidelity wins and nothing is ever learned; with
    # noise from the first step, the inverse of a network that carries nothing yet is only noise.
    reference = WatermarkRecipe(
        noise=noise.EVERYDAY,
        noise_after=150,
        rate=2e-4,
        batch=8,
        steps=2500,
        message_first=300,
        decay=800,
    )
    settings = {"couplings": 4, "growth": 8, "jpeg_channels": 0}
    return Trainable(Cin.build, published, settings, reference)


def convert(file: Path) -> Path:
    """Turn the published checkpoint (``cinNet&nsmNet.pth``) into safetensors."""
    from coverlock_plugins.networks.weights import import_network, unwrapped
    from coverlock_sdk.errors import CorruptModelError
    from coverlock_sdk.models.checkpoints import read_checkpoint

    content = read_checkpoint(file)
    if not isinstance(content, dict) or "cinNet" not in content:
        raise CorruptModelError(f"{file} is not a CIN checkpoint: it has no 'cinNet'")
    weights = unwrapped(content["cinNet"], file, "cinNet")
    if "nsmNet" in content:  # otherwise the selector is a part of the network
        selector = unwrapped(content["nsmNet"], file, "nsmNet")
        weights |= {f"nsm_model.{name}": value for name, value in selector.items()}
    target = imported_weights("cin")
    return import_network(Cin.build, {}, weights, file, "CIN", target)


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer both under their names."""
    register(Cin)
    register(PublishedCin)


@hookimpl
def register_networks(register: Register) -> None:
    """Let ``coverlock train watermark cin`` train it."""
    register(trainable, "cin")


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import cin`` convert the authors' file."""
    register(convert, "cin")
