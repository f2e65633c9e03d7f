"""blind-watermark (PyPI, MIT licence): wavelets, DCT and singular values; no network, any size.

Every 4 x 4 block of the low-pass band votes for one bit, in each of three colour channels. The
library's ``extract`` splits the mean votes into two groups by k-means. That adapts to the bias
which compression brings, but splits a payload whose bits are all equal too, and then every second
bit is wrong. This plugin reads the same votes and moves the threshold in the same way, but not so
far.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_plugins.blind_watermark.blocks import AllBlocks
from coverlock_sdk import Calibration, Watermark, hookimpl
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.errors import PictureError, needs
from coverlock_sdk.hookspecs import Register

Votes = npt.NDArray[np.float64]

NAME = "blind-watermark"
BLOCK = 8
"""Pixels each way that one vote takes: four of the low-pass band."""
THRESHOLDS = (0.12, 0.65)
"""Mean votes between which the threshold may move. In grey pictures two channels carry no mark and
vote for 0, so ones have a mean of a third there; compression moves the threshold less. Of a payload
of equal bits all means lie outside."""


class BlindWatermark(Watermark):
    """The library as its users have it: give the two passwords and the length of your payloads."""

    name = NAME
    native_size = None
    hard_bits = True
    # From `coverlock calibrate` on 60 COCO training photos: hard bits have one confidence.
    calibration = Calibration(scale=2.3646)

    def __init__(self, bits: int = 64, password_wm: int = 1, password_img: int = 1) -> None:
        self._library = _library()
        self.bits = bits
        self._passwords = password_wm, password_img

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Mark one picture after the other, as floats: nothing is rounded here."""
        marked = np.empty_like(images)
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            self._require_room(image)
            mark = self._watermark()
            mark.read_img(img=_bgr(image))
            mark.read_wm(payload.astype(bool), mode="bit")
            marked[index] = mark.embed()[..., ::-1].transpose(2, 0, 1) / 255
        return marked

    def decode(self, images: Images) -> Logits:
        """Bits, one picture after the other."""
        read = [votes > threshold(votes) for votes in map(self._votes, images)]
        return np.stack(read).astype(np.float32)

    def _votes(self, image: Images) -> Votes:
        """The mean vote for each bit, from 0 to 1."""
        self._require_room(image)
        mark = self._watermark()
        mark.wm_size = self.bits
        votes: Votes = mark.extract_decrypt(mark.bwm_core.extract(_bgr(image), self.bits))
        return votes

    def _watermark(self) -> Any:
        """A watermark of the library, which belongs to one picture."""
        mark = self._library.WaterMark(*self._passwords)
        mark.bwm_core.pool = AllBlocks(mark.bwm_core)
        return mark

    def _require_room(self, image: Images) -> None:
        height, width = image.shape[1:]
        room = (height + 1) // BLOCK * ((width + 1) // BLOCK)
        if room <= self.bits:
            raise PictureError(
                f"a picture of {width} x {height} pixels has room for fewer than {self.bits} "
                f"bits of '{self.name}', which takes {BLOCK} x {BLOCK} pixels for each: use a "
                "larger picture or fewer bits"
            )


def threshold(votes: Votes) -> float:
    """The middle between the two groups that mean votes form, as far as it may move."""
    middle = float(np.clip((votes.min() + votes.max()) / 2, *THRESHOLDS))
    for _ in range(20):
        high = votes > middle
        if high.all() or not high.any():
            break
        middle = float(np.clip((votes[high].mean() + votes[~high].mean()) / 2, *THRESHOLDS))
    return middle


def _bgr(image: Images) -> npt.NDArray[np.float32]:
    """A picture (3, H, W) in [0, 1] as OpenCV has it: (H, W, 3), BGR, up to 255."""
    return np.ascontiguousarray(255 * image[::-1].transpose(1, 2, 0))


def _library() -> ModuleType:
    with needs(f"the watermark '{NAME}'", NAME, NAME), _start_method_kept():
        import blind_watermark
    blind_watermark.bw_notes.close()  # it greets on the standard output, where results go
    return blind_watermark


@contextmanager
def _start_method_kept() -> Iterator[None]:
    """Importing the library sets how processes start, and fails where that is set already."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(None, force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


@hookimpl
def register_watermarks(register: Register) -> None:
    """Offer the watermark under its name."""
    register(BlindWatermark)
