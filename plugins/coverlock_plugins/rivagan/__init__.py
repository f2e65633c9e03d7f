"""RivaGAN, 32 bits (Zhang, Xu, Cuesta-Infante, Veeramachaneni 2019), in ONNX Runtime.

An attention map decides which bit each pixel carries, from the picture itself. That is why a
residual says little on any other picture: a watermark that is hard to transplant to begin with.
The two graphs are those that the invisible-watermark package ships.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.assets import Asset, locate
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import Bits, Images, Logits, Watermark
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.hookspecs import Register, hookimpl

if TYPE_CHECKING:
    import torch

ENCODER = "rivagan_encoder.onnx"
DECODER = "rivagan_decoder.onnx"

ASSET = Asset(
    name="rivagan",
    project="invisible-watermark",
    wheel="invisible_watermark-0.2.0-py3-none-any.whl",
    sha256="644311beed9cfe4a9a5a4a46c740f47800cef184fe2e1297f3f4542e2d992f8b",
    members=(f"imwatermark/{ENCODER}", f"imwatermark/{DECODER}"),
    description="RivaGAN's encoder and decoder from invisible-watermark (MIT licence)",
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
        self._folder = locate(ASSET)
        self._encoder = _session(self._folder / ENCODER)
        self._decoder = _session(self._folder / DECODER)

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Run the encoder, one picture after the other to bound the memory it takes."""
        marked = np.empty_like(images)
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            inputs = {"frame": _frame(image), "data": payload[None].astype(np.float32)}
            (frame,) = self._encoder.run(None, inputs)
            marked[index] = np.clip((frame[0, ::-1, 0] + 1) / 2, 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Run the decoder, one picture after the other as well."""
        logits = np.empty((len(images), self.bits), np.float32)
        for index, image in enumerate(images):
            (logits[index : index + 1],) = self._decoder.run(None, {"frame": _frame(image)})
        return logits

    def decoder_module(self) -> torch.nn.Module:
        """The same decoder in PyTorch, with the weights of the graph."""
        try:
            from coverlock_plugins.rivagan.module import load_decoder
        except ModuleNotFoundError as error:
            raise MissingModelError(
                f"the decoder of 'rivagan' as a module needs the package '{error.name}': "
                'pip install onnx "coverlock-sdk[torch]"'
            ) from error
        return load_decoder(self._folder / DECODER)


def _frame(image: Images) -> Images:
    """A picture (3, H, W) as a batch of one frame."""
    return np.ascontiguousarray(2 * image[None, ::-1, None] - 1)


def _session(path: Path) -> Any:
    """An inference session, which may be used from several threads at once.

    It keeps to OMP_NUM_THREADS where that is set, and its threads sleep when they have no work.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingModelError(
            "the watermark 'rivagan' needs ONNX Runtime: pip install \"coverlock-sdk[cpu]\""
        ) from error
    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():
        options.intra_op_num_threads = int(threads)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    available = onnxruntime.get_available_providers()
    providers = [provider for provider in wanted if provider in available]
    try:
        return onnxruntime.InferenceSession(path.read_bytes(), options, providers)
    except Exception as error:  # ONNX Runtime has a family of errors of its own
        raise CorruptModelError(
            f"the graph {path} cannot be loaded ({error}): "
            f"delete the folder {path.parent} and run: coverlock fetch {ASSET.name}"
        ) from error


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the watermark under its name."""
    register(RivaGan)


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` know where the graphs come from."""
    register(ASSET)
