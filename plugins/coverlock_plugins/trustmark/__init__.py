"""TrustMark (Bui, Agarwal, Collomosse 2023; MIT licence), 100 bits, in ONNX Runtime.

``trustmark`` is the variant Q, which most people use, ``trustmark-p`` the one with fainter marks
and ``trustmark-c`` the compact one. The graphs are Adobe's.

Marks are made as the reference makes them, so each reads what the other wrote: the residual of a
small view is clipped, loses each channel's mean and is enlarged. Of a picture more than twice as
long as wide only the middle square is marked, and P marks only that of any picture.
"""

from __future__ import annotations

import numpy as np

from coverlock_plugins.onnx_graphs import PublishedGraphs, Signature
from coverlock_sdk import Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.models.assets import PublishedFile

BITS, SIDE = 100, 256
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
SERVER = "https://cc-assets.netlify.app/watermarking/trustmark-models"
PICTURE = (1, 3, SIDE, SIDE)
SIGNATURES = {
    ENCODER: Signature((PICTURE, (1, BITS)), PICTURE),
    DECODER: Signature(((1, 3, None, None),), (1, BITS)),
}


def _published(name: str, variant: str, *digests: str | None) -> PublishedGraphs:
    files = []
    for part, digest in zip(SIGNATURES, digests, strict=True):
        original = part.replace(".", f"_{variant}.")
        files.append(PublishedFile(part, original, f"{SERVER}/{original}", digest))
    description = f"TrustMark {variant}, by Adobe (MIT licence)"
    return PublishedGraphs(name, tuple(files), description, SIGNATURES)


class TrustMark(Watermark):
    """Variant Q. The networks take pictures in [-1, 1], one at a time."""

    name = "trustmark"
    bits = BITS
    native_size = None
    published = _published(
        "trustmark",
        "Q",
        "19b3d1b25836130ffd78775a8f61539f993375d1823ef0e59ba5b8dffb4f892d",
        "ee3268f057c9dabef680e169302f5973d0589feea86189ed229a896cc3aa88df",
    )
    gain = 1.0
    """What the reference multiplies the strength by."""
    widest = 2.0
    """The longer side over the shorter, above which only the middle square is marked."""

    def __init__(self, strength: float = 1.0) -> None:
        self._encoder = self.published.open(ENCODER)
        self._decoder = self.published.open(DECODER)
        self._strength = np.float32(self.gain * strength)
        side = next(iter(self._decoder.inputs.values()))[2] or SIDE
        self._decoder_size = (side, side)
        self.card = self.published.card()

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Add the enlarged residual of the encoder, one picture after the other."""
        marked = images.copy()
        for picture, payload in zip(marked, payloads, strict=True):
            region = self._region(picture)
            cover = 2 * resample(region[None], (SIDE, SIDE)) - 1
            stego, *_ = self._encoder.run(cover, payload[None].astype(np.float32))
            residual = np.clip(stego, -1, 1) - cover
            residual -= residual.mean(axis=(2, 3), keepdims=True)
            residual = resample(residual, region.shape[1:])[0]
            if region.shape != picture.shape:
                residual *= _feather(region.shape[1])
            region += self._strength * residual / 2
        return np.clip(marked, 0, 1)

    def decode(self, images: Images) -> Logits:
        """Run the decoder at its own size, one picture after the other."""
        regions = np.stack([self._region(image) for image in images])
        seen = 2 * resample(regions, self._decoder_size) - 1
        return np.concatenate([self._decoder.run(image[None])[0] for image in seen])

    def _region(self, image: Images) -> Images:
        """The part of a picture (3, H, W) that carries the mark."""
        height, width = image.shape[1:]
        side = min(height, width)
        if max(height, width) <= self.widest * side:
            return image
        top, left = (height - side) // 2, (width - side) // 2
        return image[:, top : top + side, left : left + side]


class TrustMarkP(TrustMark):
    """The perceptual variant: its decoder sees 224 pixels."""

    name = "trustmark-p"
    published = _published(
        "trustmark-p",
        "P",
        "053441c9c9f05fc158ccba71c610d9d58fcd2c82d1912bf0ffcee988cf2f74c8",
        "be6d7c33f8a7b376f179e75f3f7c58ff816a9ac7bb6d37fd0a729a635f624c35",
    )
    gain = 1.25
    widest = 1.0


class TrustMarkC(TrustMark):
    """The compact variant."""

    name = "trustmark-c"
    published = _published("trustmark-c", "C", None, None)


VARIANTS = (TrustMark, TrustMarkP, TrustMarkC)


def _feather(side: int) -> Images:
    """Weights (side, side) that fall off in the outer hundredth, so that the edge does not show."""
    width = min(max(side // 100, 1), 50)
    ramp = np.minimum((1 + np.arange(side, dtype=np.float32)) / width, 1)
    return np.minimum(ramp, ramp[::-1]) * np.minimum(ramp, ramp[::-1])[:, None]


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the three variants."""
    for variant in VARIANTS:
        register(variant)


@hookimpl
def register_assets(register: Register) -> None:
    """Let ``coverlock fetch`` know where the graphs come from."""
    for variant in VARIANTS:
        register(variant.published)


@hookimpl
def register_importers(register: Register) -> None:
    """Let ``coverlock import`` take graphs that users have."""
    for variant in VARIANTS:
        register(variant.published.take_in, variant.name)
