"""VINE, 100 bits (Lu, Zhou, Lu, Zhu, Kong 2025): a watermark painted by a diffusion model.

No weights come with the SDK. The published ones are licensed for NON-COMMERCIAL use only; whoever
has them converts them, and SD-Turbo's text encoder, with ``coverlock import vine FILE...``:

    VINE-R-Enc    model.safetensors (or ConditionAdaptor.pth, UNet2DConditionModel.pth, vae.pth)
    VINE-R-Dec    model.safetensors (or CustomConvNeXt.pth)
    sd-turbo      text_encoder/model.safetensors

Files are recognised by what they hold. VINE-B has the same layout and takes the same place.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.assets import cache_folder
from coverlock_sdk.contract import Bits, Images, Logits, Watermark
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.hookspecs import Register, hookimpl

if TYPE_CHECKING:
    import torch


class Vine(Watermark):
    """The published networks at 256 px, or at any ``size`` that divides by 64.

    ``layout`` changes the networks themselves (see ``network.Layout``); their weights are then
    looked for in ``folder``. ``broadcast_gap=True`` is the paper's intervention, which did not
    converge there.
    """

    name = "vine"

    def __init__(self, size: int = 256, folder: Path | None = None, **layout: Any) -> None:
        try:
            from coverlock_plugins.vine import weights
            from coverlock_plugins.vine.network import Layout
        except ImportError as error:
            raise _missing_packages(error) from error
        self._layout = Layout(**layout)
        self._folder = folder or _default_folder(self._layout.broadcast_gap)
        weights.require_parts(self._folder, ["decoder"])
        self.bits = self._layout.bits
        self.native_size = (size, size)
        self._modules: dict[str, torch.nn.Module] = {}
        self._loading = Lock()

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Run the encoder, one picture after the other to bound the memory it takes."""
        return self._run(self.encoder_module(), images, payloads)

    def decode(self, images: Images) -> Logits:
        """Run the decoder, one picture after the other as well."""
        return self._run(self.decoder_module(), images)

    def encoder_module(self) -> torch.nn.Module:
        """Pictures (N, 3, H, W) in [0, 1] and bits (N, L) to marked pictures."""
        return self._module("encoder")

    def decoder_module(self) -> torch.nn.Module:
        """Pictures (N, 3, H, W) in [0, 1] to logits (N, L)."""
        return self._module("decoder")

    def _module(self, name: str) -> torch.nn.Module:
        """The encoder needs gigabytes and verification does not need it: each on first use."""
        import torch

        from coverlock_plugins.vine import weights

        with self._loading:
            if name not in self._modules:
                load = {"encoder": weights.load_encoder, "decoder": weights.load_decoder}[name]
                device = "cuda" if torch.cuda.is_available() else "cpu"
                self._modules[name] = load(self._folder, self._layout).to(device)
        return self._modules[name]

    def _run(self, module: torch.nn.Module, *batches: Images | Bits) -> Images:
        import torch

        device = next(module.parameters()).device
        with torch.inference_mode():
            rows = [
                module(*(torch.from_numpy(item[None].copy()).to(device) for item in items)).cpu()
                for items in zip(*batches, strict=True)
            ]
        result: Images = np.concatenate([row.numpy() for row in rows])
        return result


def import_official(file: Path) -> Path:
    """Convert one of the published files; see the top of this module for what they are."""
    try:
        from coverlock_plugins.vine import weights
        from coverlock_plugins.vine.network import Layout
    except ImportError as error:
        raise _missing_packages(error) from error
    return weights.import_official(file, _default_folder(), Layout())


def _default_folder(broadcast_gap: bool = False) -> Path:
    return cache_folder() / ("vine-broadcast-gap" if broadcast_gap else "vine")


def _missing_packages(error: ImportError) -> MissingModelError:
    return MissingModelError(
        f"the watermark 'vine' needs the package '{error.name}': "
        'pip install "coverlock-sdk[torch,vine]"'
    )


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the watermark under its name."""
    register(Vine)


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import vine`` convert the published files."""
    register(import_official, "vine")
