"""Watermark Anything (Sander et al. 2025; MIT licence), 32 bits, in ONNX Runtime.

The embedder gives a residual, which is weighed by how much of it the eye would notice. The
detector says for every pixel whether it is marked, and what it takes each bit to be; a logit is the
mean over the marked pixels. Nobody publishes the graphs with a digest, so you export or download
them and bring them with ``coverlock import wam``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coverlock_plugins.onnx_graphs import PublishedGraphs, Signature
from coverlock_plugins.wam.visibility import just_noticeable
from coverlock_sdk import Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.models.assets import PublishedFile

BITS, SIDE = 32, 256
EMBEDDER, DETECTOR = "embedder.onnx", "detector.onnx"
PROJECT = "https://github.com/facebookresearch/watermark-anything"
PICTURE = (1, 3, SIDE, SIDE)
PUBLISHED = PublishedGraphs(
    "wam",
    tuple(PublishedFile(name, name, PROJECT) for name in (EMBEDDER, DETECTOR)),
    "Watermark Anything as ONNX graphs, by Meta (MIT licence); only to import",
    {
        EMBEDDER: Signature((PICTURE, (1, BITS)), PICTURE),
        DETECTOR: Signature((PICTURE,), (1, 1 + BITS, SIDE, SIDE)),
    },
)
MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
CHANNELS = np.array([0.5, 0.5, 1.0], np.float32)[:, None, None]
"""Blue hides more."""


class WatermarkAnything(Watermark):
    """The networks take pictures by ImageNet's mean and deviation, one at a time."""

    name = "wam"
    bits = BITS
    native_size = (SIDE, SIDE)

    def __init__(self, strength: float = 2.0) -> None:
        self._embedder = PUBLISHED.open(EMBEDDER)
        self._detector = PUBLISHED.open(DETECTOR)
        self._strength = np.float32(strength)
        self.card = PUBLISHED.card()

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Add the residual as far as it hides, one picture after the other."""
        marked = np.empty_like(images)
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            seen = ((image - MEAN) / DEVIATION)[None]
            residual = self._embedder.run(seen, payload[None].astype(np.float32))[0][0]
            visible = self._strength * DEVIATION * residual
            marked[index] = np.clip(image + CHANNELS * just_noticeable(image) * visible, 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Let the marked pixels vote, one picture after the other."""
        seen = (images - MEAN) / DEVIATION
        return np.stack([votes(self._detector.run(image[None])[0][0]) for image in seen])


def votes(planes: npt.NDArray[np.float32]) -> Logits:
    """Logits (bits,) from what the detector says of each pixel: (1 + bits, H, W).

    Where it finds no marked pixel, all are asked: an unmarked picture gets logits like any other.
    """
    marked, bits = planes[0] > 0, planes[1:]
    logits: Logits = (bits[:, marked] if marked.any() else bits.reshape(len(bits), -1)).mean(axis=1)
    return logits


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the watermark under its name."""
    register(WatermarkAnything)


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` say how to get the graphs."""
    register(PUBLISHED)


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import`` take graphs that users have."""
    register(PUBLISHED.take_in, "wam")
