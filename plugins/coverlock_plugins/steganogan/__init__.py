"""SteganoGAN's dense model as a 32-bit watermark (Zhang, Cuesta-Infante, Xu, Veeramachaneni 2019).

SteganoGAN hides a bit in each of eight planes at every pixel. Repeated over all of them, 32 bits
survive what single ones do not. Its residual hardly depends on the picture, so it is easily moved
to another one: a watermark that shows what CoverLock is for.

The networks were trained on random planes and fail on regular ones: of a payload of ones, tiled
as it is, nothing comes back. So the tiled payload is flipped by a fixed public pattern of random
signs first, and the decoder's votes are flipped back. That also makes an unmarked picture's votes
fair, and lets the bits survive noise and blur.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from coverlock_plugins.steganogan import legacy, network
from coverlock_sdk import Calibration, Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import CorruptModelError, needs
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.models.assets import Asset

if TYPE_CHECKING:
    import torch

DEPTH = 8
SIDE = 256
WEIGHTS = "dense.safetensors"


def flips() -> Bits:
    """The pattern (H, W), the same on every platform: 1 where a plane says a bit's opposite."""
    stream = hashlib.shake_256(b"coverlock steganogan flips").digest(SIDE * SIDE // 8)
    return np.unpackbits(np.frombuffer(stream, np.uint8)).reshape(SIDE, SIDE)


def convert(source: Path, target: Path) -> None:
    """Turn the published pickle into safetensors, encoder and decoder only."""
    (target / WEIGHTS).write_bytes(save(legacy.read_checkpoint(source / "dense.steg")))


ASSET = Asset(
    name="steganogan",
    project="steganogan",
    wheel="steganogan-0.1.3-py2.py3-none-any.whl",
    sha256="02b6a470948fd9a1b7734facf5f465af5e0a9fa83fb8c49d83df15b718ec135c",
    members=("steganogan/pretrained/dense.steg",),
    description="SteganoGAN's dense encoder and decoder, by MIT DAI Lab (MIT licence)",
    convert=convert,
    kept={WEIGHTS: "043899a495f8ba577a689f9b374032eae0fc46add0071b7fd80352e389c66fbd"},
)


class SteganoGan(Watermark):
    """Bit k lives wherever the flat index of (plane, row, column) is k modulo 32.

    A logit is the mean of what the decoder says at those places, a soft majority vote. Batch
    normalisation uses its running statistics, which the bits survive better than those of the
    picture at hand.
    """

    name = "steganogan"
    bits = 32
    native_size = (SIDE, SIDE)
    # From `coverlock calibrate steganogan` on 200 COCO training photos, each marked, saved in 8
    # bits and seen twice: as it is, and under one distortion of the training distribution.
    calibration = Calibration(scale=8.9653, power=0.6497)

    def __init__(self) -> None:
        path = ASSET.locate() / WEIGHTS
        self._flips = flips()
        try:
            self._weights = load_file(path)
            self._encoder = network.build(self._weights, "encoder", extra=DEPTH)
            self._decoder = network.build(self._weights, "decoder")
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise CorruptModelError(
                f"the weights in {path} cannot be read ({error}): "
                f"delete the folder {path.parent} and run: coverlock fetch {ASSET.name}"
            ) from error

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Add the encoder's residual, one picture after the other to bound the memory it takes."""
        marked = np.empty_like(images)
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            cover = 2 * image - 1
            planes = np.resize(payload, (DEPTH, SIDE, SIDE)) ^ self._flips
            stego = cover + network.run(self._encoder, cover, planes.astype(np.float32))
            marked[index] = np.clip((stego + 1) / 2, 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Let every place vote for its bit."""
        logits = np.empty((len(images), self.bits), np.float32)
        signs = 1 - 2 * self._flips.astype(np.float32)
        for index, image in enumerate(images):
            votes = signs * network.run(self._decoder, 2 * image - 1)
            logits[index] = votes.reshape(-1, self.bits).mean(axis=0)
        return logits

    def decoder_module(self) -> torch.nn.Module:
        """The same decoder in PyTorch, for export and analysis."""
        return _modules().Decoder(self._weights, self._flips, self.bits)

    def encoder_module(self) -> torch.nn.Module:
        """The same encoder in PyTorch, for export."""
        return _modules().Encoder(self._weights, self._flips, DEPTH)


def _modules() -> ModuleType:
    with needs("'steganogan' as a PyTorch module", None, "torch"):
        from coverlock_plugins.steganogan import module
    return module


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the watermark under its name."""
    register(SteganoGan)


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` know where the weights come from."""
    register(ASSET)
