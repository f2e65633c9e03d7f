"""RivaGAN, 32 bits (Zhang, Xu, Cuesta-Infante, Veeramachaneni 2019), in ONNX Runtime.

An attention map decides which bit each pixel carries, from the picture itself. That is why a
residual says little on any other picture: a watermark that is hard to transplant to begin with.
``rivagan`` runs the two graphs that the invisible-watermark package ships; ``rivagan-trained`` is a
network with smaller kernels that was trained here and ships with this one.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_plugins.networks.watermark import StoredWatermark
from coverlock_plugins.onnx_graphs import Graph, open_graph
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import LimitedWatermarkWarning, needs
from coverlock_sdk.hookspecs import Register, hookimpl
from coverlock_sdk.models.assets import Asset

if TYPE_CHECKING:
    import torch

    from coverlock_plugins.rivagan.network import RivaganNetwork
    from coverlock_training.watermarks.trainable import Trainable

ENCODER = "rivagan_encoder.onnx"
DECODER = "rivagan_decoder.onnx"

ASSET = Asset(
    name="rivagan",
    project="invisible-watermark",
    wheel="invisible_watermark-0.2.0-py3-none-any.whl",
    sha256="644311beed9cfe4a9a5a4a46c740f47800cef184fe2e1297f3f4542e2d992f8b",
    members=(f"imwatermark/{ENCODER}", f"imwatermark/{DECODER}"),
    description="RivaGAN's encoder and decoder from invisible-watermark (MIT licence)",
    kept={
        ENCODER: "66bc7814fadac7d686105c8ab26c6cf2cc8e40deb83e67bb6ef5b9de9b8ece0d",
        DECODER: "6b006690cf352fa50a91a0b6d6241dbcded0a9957969e2c0665cf9a7011b3880",
    },
)


class RivaGan(Watermark):
    """The networks see one video frame, (N, 3, 1, H, W), in OpenCV's BGR order and in [-1, 1]."""

    name = "rivagan"
    bits = 32
    native_size = (256, 256)
    # From `coverlock calibrate rivagan` on 200 COCO training photos, each marked, saved in 8 bits
    # and seen twice: as it is, and under one distortion of the training distribution.
    calibration = Calibration(scale=1.4174, power=0.6648)

    def __init__(self) -> None:
        self._folder = ASSET.locate()
        _warn(self.name)
        self._encoder = _graph(self._folder / ENCODER)
        self._decoder = _graph(self._folder / DECODER)

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Run the encoder, one picture after the other to bound the memory it takes."""
        marked = np.empty_like(images)
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            (frame,) = self._encoder.run(_frame(image), payload[None].astype(np.float32))
            marked[index] = np.clip((frame[0, ::-1, 0] + 1) / 2, 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Run the decoder, one picture after the other as well."""
        logits = np.empty((len(images), self.bits), np.float32)
        for index, image in enumerate(images):
            (logits[index : index + 1],) = self._decoder.run(_frame(image))
        return logits

    def encoder_module(self) -> torch.nn.Module:
        """The same encoder in PyTorch, with the weights of the graph."""
        return self._in_torch()[0]

    def decoder_module(self) -> torch.nn.Module:
        """The same decoder in PyTorch, with the weights of the graph."""
        return self._in_torch()[1]

    def _in_torch(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        with needs("'rivagan' as a PyTorch module", None, "torch"):
            from coverlock_plugins.networks.network import Decoder, Encoder
            from coverlock_plugins.rivagan.network import from_onnx
        network = from_onnx(self._folder / ENCODER, self._folder / DECODER)
        return Encoder(network).eval(), Decoder(network).eval()


class TrainedRivaGan(StoredWatermark):
    """RivaGAN as our own code trains it: the reference checkpoint, or weights of your own."""

    name = "rivagan-trained"
    reference = Path(__file__).parent / "weights" / "rivagan.safetensors"

    def __init__(self, weights: str | Path | None = None) -> None:
        super().__init__(weights)
        _warn(self.name)

    @staticmethod
    def build(**settings: Any) -> RivaganNetwork:
        """The network of these settings, untrained."""
        from coverlock_plugins.rivagan.network import RivaganNetwork

        return RivaganNetwork(**settings)


def trainable() -> Trainable:
    """The published settings; the reference is smaller, as two processors demand."""
    from coverlock_training.watermarks.noise import EVERYDAY, Crop, Identity, JpegMask, Resize
    from coverlock_training.watermarks.trainable import Trainable
    from coverlock_training.watermarks.trainer import WatermarkRecipe

    published = WatermarkRecipe(
        message_loss="bce",
        image_weight=0.0,  # the residual is bounded instead
        noise=(Identity(), Crop((0.64, 1.0), centred=0.0), Resize((0.8, 1.0)), JpegMask()),
        rate=5e-4,
        batch=24,  # twelve covers
        inverted_twins=True,
        steps=100_000,
    )
    reference = WatermarkRecipe(
        message_loss="bce",
        image_weight=0.0,
        noise=EVERYDAY,
        batch=8,
        inverted_twins=True,
        steps=4000,
        message_first=500,
        decay=1500,
    )
    return Trainable(TrainedRivaGan.build, published, {"size": 128, "kernel": 7}, reference)


def _warn(name: str) -> None:
    limits = f"'{name}' cannot mark grey pictures, nor carry a payload whose bits are all equal"
    warnings.warn(limits, LimitedWatermarkWarning, stacklevel=3)


def _frame(image: Images) -> Images:
    """A picture (3, H, W) as a batch of one frame."""
    return np.ascontiguousarray(2 * image[None, ::-1, None] - 1)


def _graph(path: Path) -> Graph:
    remedy = f"delete the folder {path.parent} and run: coverlock fetch {ASSET.name}"
    return open_graph(path, "the watermark 'rivagan'", remedy)


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the published watermark, and others of its kind."""
    register(RivaGan)
    register(TrainedRivaGan)


@hookimpl
def register_networks(register: Register) -> None:
    """Let ``coverlock train watermark rivagan`` train it."""
    register(trainable, "rivagan")


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` know where the graphs come from."""
    register(ASSET)
