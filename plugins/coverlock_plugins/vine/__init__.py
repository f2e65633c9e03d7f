"""VINE, 100 bits (Lu, Zhou, Lu, Zhu, Kong 2025): a watermark painted by a diffusion model.

No weights come with the SDK. The published ones are licensed for NON-COMMERCIAL use only; whoever
has them converts them, and SD-Turbo's text encoder, with ``coverlock import vine FILE...``:

    VINE-R-Enc    model.safetensors (or ConditionAdaptor.pth, UNet2DConditionModel.pth, vae.pth)
    VINE-R-Dec    model.safetensors (or CustomConvNeXt.pth)
    sd-turbo      text_encoder/model.safetensors

Files are recognised by what they hold. VINE-B has the same layout and takes the same place.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from coverlock_plugins.networks.watermark import card_of, run
from coverlock_sdk import Calibration, CoverLockError, Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import needs
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.models.assets import cache_folder

if TYPE_CHECKING:
    import torch

    from coverlock_training.watermarks.trainable import Trainable


class Vine(Watermark):
    """The published networks at 256 px, or at any ``size`` that divides by 64.

    ``weights`` is a folder of converted parts, or a file that ``coverlock train watermark vine``
    wrote. ``layout`` changes the networks themselves (see ``network.Layout``), for parts that have
    other sizes.
    """

    name = "vine"

    def __init__(self, size: int = 256, weights: str | Path | None = None, **layout: Any) -> None:
        stored, network = _modules()
        from coverlock_plugins.networks.weights import load_network

        self._layout = network.Layout(**layout)
        self._weights = Path(weights or _default_folder())
        self._networks: dict[str, torch.nn.Module] = {}
        self._loading = Lock()
        if self._weights.is_file():
            trained: Any = load_network(self._weights, network.VineNetwork)
            self._layout, size = trained.layout, trained.size
            self._networks = {"encoder": trained.encoder, "decoder": trained.decoder}
            self.card = card_of(self._weights)
            self.calibration = Calibration(**self.card.get("calibration", {}))
        else:
            stored.require_parts(self._weights, ["decoder"])
        if size <= 0 or size % 64:
            raise CoverLockError(f"VINE works at sizes that divide by 64, not at {size}")
        self.bits = self._layout.bits
        self.native_size = (size, size)

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Run the encoder, one picture after the other to bound the memory it takes."""
        return run(self.encoder_module(), images, payloads, rows=1)

    def decode(self, images: Images) -> Logits:
        """Run the decoder, one picture after the other as well."""
        return run(self.decoder_module(), images, rows=1)

    def encoder_module(self) -> torch.nn.Module:
        """Pictures (N, 3, H, W) in [0, 1] and bits (N, L) to marked pictures."""
        return self._module("encoder")

    def decoder_module(self) -> torch.nn.Module:
        """Pictures (N, 3, H, W) in [0, 1] to logits (N, L)."""
        return self._module("decoder")

    def _module(self, name: str) -> torch.nn.Module:
        """The encoder takes gigabytes, and verification does without: each on first use."""
        import torch

        stored, _ = _modules()
        with self._loading:
            if name not in self._networks:
                load = {"encoder": stored.load_encoder, "decoder": stored.load_decoder}[name]
                self._networks[name] = load(self._weights, self._layout)
            device = "cuda" if torch.cuda.is_available() else "cpu"
            return self._networks[name].to(device)


def trainable() -> Trainable:
    """The published sizes, and smaller ones for a CPU; the authors train with more losses."""
    from coverlock_training.watermarks.noise import EVERYDAY
    from coverlock_training.watermarks.trainable import Trainable
    from coverlock_training.watermarks.trainer import WatermarkRecipe

    published = WatermarkRecipe(
        message_loss="bce",
        message_weight=1.5,
        image_weight=2.0,
        noise=EVERYDAY,
        rate=1e-4,
        batch=112,
        steps=100_000,
        message_first=1000,
    )
    small = {
        "size": 128,
        "side": 32,
        "autoencoder": (16, 32, 64, 64),
        "unet": (32, 64, 64, 64),
        "heads": (1, 2, 2, 2),
        "groups": 8,
        "tokens": 1,
        "context": 32,
        "depths": (2, 2, 4, 2),
        "widths": (24, 48, 96, 192),
        "classes": 200,
    }
    quick = replace(published, rate=1e-3, batch=16, steps=20_000)
    return Trainable(_modules()[1].VineNetwork, published, small, quick)


def import_official(file: Path) -> Path:
    """Convert one of the published files; see the top of this module for what they are."""
    stored, network = _modules()
    return stored.import_official(file, _default_folder(), network.Layout())


def _modules() -> tuple[Any, Any]:
    """``weights`` and ``network``, which need PyTorch and diffusers."""
    with needs("the watermark 'vine'", None, "torch,vine"):
        from coverlock_plugins.vine import network, weights
    return weights, network


def _default_folder() -> Path:
    return cache_folder() / "vine"


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the watermark under its name."""
    register(Vine)


@hookimpl
def register_networks(register: Register) -> None:
    """Let ``coverlock train watermark vine`` train it."""
    register(trainable, "vine")


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import vine`` convert the published files."""
    register(import_official, "vine")
