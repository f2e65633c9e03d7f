"""VideoSeal (Fernandez et al. 2024) and PixelSeal (2025), MIT licence, 256 bits, as TorchScript.

The module resamples by itself and attenuates its mark at the picture's own size, so pictures of any
size are given as they are. Nobody publishes the files with a SHA-256: download ``y_256b_img.jit``
(or export PixelSeal to TorchScript) and bring it with ``coverlock import``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_sdk import Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import CorruptModelError, needs
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.models.assets import PublishedFile, PublishedFiles

BITS = 256
MODULE = "module.jit"
SERVER = "https://dl.fbaipublicfiles.com/videoseal"


class VideoSeal(Watermark):
    """One module with the methods ``embed(pictures, bits)`` and ``detect(pictures)``."""

    name = "videoseal"
    bits = BITS
    native_size = None
    published = PublishedFiles(
        "videoseal",
        (PublishedFile(MODULE, "y_256b_img.jit", f"{SERVER}/y_256b_img.jit"),),
        "VideoSeal 1.0 as TorchScript, by Meta (MIT licence); only to import",
    )

    def __init__(self) -> None:
        self._module = _load(self.published.locate() / MODULE, self.name)
        self.card = self.published.card()

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Mark one picture after the other, to bound the memory it takes."""
        import torch

        marked = np.empty_like(images)
        with torch.inference_mode():
            for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
                bits = torch.from_numpy(payload[None].astype(np.float32))
                picture = self._module.embed(torch.from_numpy(image[None]), bits)
                marked[index] = picture[0].clamp(0, 1).numpy()
        return marked

    def decode(self, images: Images) -> Logits:
        """The bits after the first answer, which is about the whole; the mean of a map."""
        import torch

        rows = []
        with torch.inference_mode():
            for image in images:
                answer = self._module.detect(torch.from_numpy(image[None]))
                rows.append(answer[0, 1:].reshape(BITS, -1).mean(dim=1).numpy())
        return np.stack(rows)


class PixelSeal(VideoSeal):
    """The same interface with fainter marks; export the checkpoint to TorchScript yourself."""

    name = "pixelseal"
    published = PublishedFiles(
        "pixelseal",
        (PublishedFile(MODULE, "pixelseal.jit", f"{SERVER}/pixelseal/checkpoint.pth"),),
        "PixelSeal as TorchScript, by Meta (MIT licence); only to import",
    )


MODELS = (VideoSeal, PixelSeal)


def _load(path: Path, name: str) -> Any:
    """The module in ``path``, once it answers as it should."""
    with needs(f"the watermark '{name}'", "PyTorch", "torch"):
        import torch
    try:
        module = torch.jit.load(path, map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CorruptModelError(f"{path} is no TorchScript module ({reason})") from error
    lacking = [method for method in ("embed", "detect") if not hasattr(module, method)]
    if lacking:
        raise CorruptModelError(f"{path} is not {name}: its module has no method '{lacking[0]}'")
    with torch.inference_mode():
        answer = module.detect(torch.full((1, 3, 256, 256), 0.5))
    if answer.ndim < 2 or answer.shape[1] != 1 + BITS:
        raise CorruptModelError(
            f"{path} is not {name}: detect gives {tuple(answer.shape)} where (1, {1 + BITS}) is due"
        )
    return module


def keep(published: PublishedFiles, file: Path, /) -> Path:
    """Take in a module that the user has."""
    _load(file, published.name)
    return published.keep(MODULE, file.read_bytes())


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer both watermarks."""
    for model in MODELS:
        register(model)


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` say how to get the modules."""
    for model in MODELS:
        register(model.published)


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import`` take modules that users have."""
    for model in MODELS:
        register(partial(keep, model.published), model.name)
