"""Two watermarks of invisible-watermark (PyPI, MIT licence), which need no network: any size.

Both quantise one number of every 4 x 4 block of the low-pass wavelet band of one chroma channel:
``dwtdct`` the largest coefficient, ``dwtdctsvd`` the largest singular value of the block's DCT. The
package's third method is the plugin ``rivagan``.
"""

from __future__ import annotations

import warnings

import numpy as np

from coverlock_sdk import Calibration, Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits, Pixels
from coverlock_sdk.errors import LimitedWatermarkWarning, PictureError, needs
from coverlock_sdk.hookspecs import Register

LEAST_PIXELS = 256 * 256
"""The library refuses pictures with fewer."""


class InvisibleWatermark(Watermark):
    """A method of the library, with its own settings, on the 8-bit pictures that it works on.

    Calibrations are from ``coverlock calibrate`` on 60 COCO training photos: hard bits have one
    confidence.
    """

    native_size = None
    hard_bits = True
    method: str
    limits = "cannot mark grey pictures"

    def __init__(self, bits: int = 64) -> None:
        with needs(f"the watermark '{self.name}'", "invisible-watermark", "invisible-watermark"):
            import imwatermark
        self._library = imwatermark
        self.bits = bits
        limits = f"'{self.name}' {self.limits}"
        warnings.warn(limits, LimitedWatermarkWarning, stacklevel=2)

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Add the difference that the library makes, one picture after the other."""
        height, width = images.shape[2:]
        if height * width < LEAST_PIXELS:
            raise PictureError(
                f"'{self.name}' marks pictures of {LEAST_PIXELS:,} pixels (256 x 256) or more, "
                f"but this one has {width} x {height}: use a larger picture"
            )
        marked = np.empty_like(images)
        encoder = self._library.WatermarkEncoder
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            cover = _bgr(image)
            writer = encoder()
            writer.set_watermark("bits", payload.tolist())
            difference = writer.encode(cover, self.method).astype(np.float32) - cover
            residual = difference[..., ::-1].transpose(2, 0, 1) / np.float32(255)
            marked[index] = np.clip(image + residual, 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Bits, one picture after the other."""
        reader = self._library.WatermarkDecoder("bits", self.bits)
        bits = [reader.decode(_bgr(_enlarged(image)), self.method) for image in images]
        return np.stack(bits).astype(np.float32)


class DwtDct(InvisibleWatermark):
    """The library's default: fast, and lost in any compressed picture."""

    name = "dwtdct"
    method = "dwtDct"
    limits = "cannot mark grey pictures, loses bits in every picture, and all of them in JPEG files"
    calibration = Calibration(scale=1.1404)


class DwtDctSvd(InvisibleWatermark):
    """Slower and sturdier."""

    name = "dwtdctsvd"
    method = "dwtDctSvd"
    calibration = Calibration(scale=1.8800)


def _enlarged(image: Images) -> Images:
    """A picture that the library would refuse, repeated: a crop of a marked one reads as noise."""
    height, width = image.shape[1:]
    if height * width >= LEAST_PIXELS:
        return image
    more = [(0, 0), (0, max(256 - height, 0)), (0, max(256 - width, 0))]
    return np.pad(image, more, mode="wrap")


def _bgr(image: Images) -> Pixels:
    """A picture (3, H, W) in [0, 1] as OpenCV has it: (H, W, 3), BGR, 8 bits."""
    pixels = np.rint(255 * image[::-1].transpose(1, 2, 0)).astype(np.uint8)
    return np.ascontiguousarray(pixels)


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer both watermarks."""
    register(DwtDct)
    register(DwtDctSvd)
