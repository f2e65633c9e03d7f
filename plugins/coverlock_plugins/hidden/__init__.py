"""HiDDeN (Zhu, Kaplan, Johnson, Fei-Fei 2018): 30 bits at 128 pixels, hard to transplant.

``hidden`` is a narrower network that was trained here and ships with the package;
``hidden-published`` is whatever ``coverlock import hidden CHECKPOINT`` has converted.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_plugins.networks.watermark import StoredWatermark, imported_weights
from coverlock_sdk.errors import LimitedWatermarkWarning
from coverlock_sdk.hookspecs import Register, hookimpl

if TYPE_CHECKING:
    from coverlock_plugins.hidden.network import HiddenNetwork
    from coverlock_training.watermarks.trainable import Trainable


class Hidden(StoredWatermark):
    """The reference checkpoint, or weights of your own."""

    name = "hidden"
    reference: Path | None = Path(__file__).parent / "weights" / "hidden.safetensors"

    def __init__(self, weights: str | Path | None = None) -> None:
        super().__init__(weights)
        if weights is None and self.reference:
            limits = (
                f"'{self.name}' misreads about one bit in twelve, and cannot mark grey pictures"
            )
            warnings.warn(limits, LimitedWatermarkWarning, stacklevel=2)

    @staticmethod
    def build(**settings: Any) -> HiddenNetwork:
        """The network of these settings, untrained."""
        from coverlock_plugins.hidden.network import HiddenNetwork

        return HiddenNetwork(**settings)


class PublishedHidden(Hidden):
    """The published weights."""

    name, reference = "hidden-published", None


def trainable() -> Trainable:
    """The published settings, and those of the reference checkpoint."""
    from coverlock_training.watermarks import noise
    from coverlock_training.watermarks.trainable import Trainable
    from coverlock_training.watermarks.trainer import WatermarkRecipe

    published = WatermarkRecipe(
        image_weight=0.7,
        noise=(
            noise.Identity(),
            noise.Crop((0.16, 0.30), centred=0.0),
            noise.Cropout((0.06, 0.12)),
            noise.Dropout((0.65, 0.75)),  # the authors count the pixels that stay
            noise.Resize((0.4, 0.6)),
            noise.JpegMask(),
        ),
        batch=12,
        steps=300_000,
    )
    # The message is written into texture, so a run begins with weights that read it without noise,
    # and lets the mark be strong until it has moved to where noise leaves it: see
    # docs/research/watermarks.md.
    # Twins show the decoder what of a picture is message. The first 4,000 steps saw pieces.
    reference = WatermarkRecipe(
        image_weight=10.0,
        message_first=2000,
        early_fidelity=0.125,
        noise=(noise.Mixed(noise.EVERYDAY),),
        inverted_twins=True,
        optimizer="muon",
        rate=2e-3,
        warmup=50,
        steps=6200,
        decay=3000,
        settled=800,
    )
    return Trainable(Hidden.build, published, {"channels": 32}, reference)


def convert(file: Path) -> Path:
    """Turn a published checkpoint (``.pyt``) into safetensors."""
    from coverlock_plugins.networks.weights import import_network, unwrapped
    from coverlock_sdk.errors import CorruptModelError
    from coverlock_sdk.models.checkpoints import read_checkpoint

    part, last = "enc-dec-model", "decoder.linear.bias"
    content = read_checkpoint(file)
    if not isinstance(content, dict) or part not in content:
        raise CorruptModelError(f"{file} is not a HiDDeN checkpoint: it has no '{part}'")
    state = unwrapped(content[part], file, part)
    if last not in state:
        raise CorruptModelError(f"{file} is not a HiDDeN checkpoint: it has no '{last}'")
    settings = {"bits": state[last].numel()}
    target = imported_weights("hidden")
    return import_network(Hidden.build, settings, state, file, "HiDDeN", target)


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer both under their names."""
    register(Hidden)
    register(PublishedHidden)


@hookimpl
def register_networks(register: Register) -> None:
    """Let ``coverlock train watermark hidden`` train it."""
    register(trainable, "hidden")


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import hidden`` convert the authors' files."""
    register(convert, "hidden")
