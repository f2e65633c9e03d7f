"""Two watermarks of invisible-watermark (PyPI, MIT licence), which need no network: any size.

Both quantise one number of every 4 x 4 block of the low-pass wavelet band of one chroma channel:
``dwtdct`` the largest coefficient, ``dwtdctsvd`` the largest singular value of the block's DCT. The
package's third method is the plugin ``rivagan``.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits, Pixels
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import PictureError, needs
from coverlock_sdk.hookspecs import Register, hookimpl
from coverlock_sdk.locking.calibration import Calibration

LEAST_PIXELS = 256 * 256
"""The library refuses smaller pictures."""


class InvisibleWatermark(Watermark):
    """A method of the library, with its own settings, on the 8-bit pictures that it works on."""

    native_size = None
    hard_bits = True
    method: str

    def __init__(self, bits: int = 64) -> None:
        self._library = _library(self.name)
        self.bits = bits

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Add the difference that the library makes, one picture after the other."""
        marked = np.empty_like(images)
        encoder = self._library.WatermarkEncoder
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            cover = self._bgr(image)
            writer = encoder()
            writer.set_watermark("bits", payload.tolist())
            difference = writer.encode(cover, self.method).astype(np.float32) - cover
            residual = difference[..., ::-1].transpose(2, 0, 1) / np.float32(255)
            marked[index] = np.clip(image + residual, 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Bits, one picture after the other."""
        reader = self._library.WatermarkDecoder("bits", self.bits)
        bits = [reader.decode(self._bgr(image), self.method) for image in images]
        return np.stack(bits).astype(np.float32)

    def _bgr(self, image: Images) -> Pixels:
        """A picture (3, H, W) in [0, 1] as OpenCV has it: (H, W, 3), BGR, 8 bits."""
        height, width = image.shape[1:]
        if height * width < LEAST_PIXELS:
            raise PictureError(
                f"'{self.name}' takes pictures of {LEAST_PIXELS:,} pixels (256 x 256) or more, "
                f"but this one has {width} x {height}: use a larger picture"
            )
        pixels = np.rint(255 * image[::-1].transpose(1, 2, 0)).astype(np.uint8)
        return np.ascontiguousarray(pixels)


class DwtDct(InvisibleWatermark):
    """The library's default: fast, and lost in any compressed picture."""

    name = "dwtdct"
    method = "dwtDct"
    calibration = Calibration()


class DwtDctSvd(InvisibleWatermark):
    """Slower and sturdier."""

    name = "dwtdctsvd"
    method = "dwtDctSvd"
    calibration = Calibration()


def _library(name: str) -> ModuleType:
    with needs(f"the watermark '{name}'", None, "invisible-watermark"):
        import imwatermark
    return imwatermark


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer both watermarks."""
    register(DwtDct)
    register(DwtDctSvd)
