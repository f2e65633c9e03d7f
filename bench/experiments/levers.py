"""Ways to raise the bar for an attacker who has the hash: each is a hash around another one.

They exist to be measured (``coverlock bench levers``); docs/threat-model.md says what each buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coverlock_bench.adaptive.white_box import WhiteBox
from coverlock_bench.photos import to_float
from coverlock_sdk import Key, load_hash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.distortions import Crop, Distortion, GaussianBlur, GaussianNoise, Jpeg
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.plugin_calls import hash_logits

GRID = 8
"""A picture is divided into this many blocks a side, which a view may cover."""


@dataclass(frozen=True)
class View:
    """A square window of a picture, in shares of its side, with some blocks covered in grey."""

    top: float
    left: float
    side: float
    covered: npt.NDArray[np.bool_]

    def window(self, height: int, width: int) -> tuple[slice, slice]:
        """The rows and columns of a picture that the window shows."""
        rows = slice(round(self.top * height), round((self.top + self.side) * height))
        return rows, slice(round(self.left * width), round((self.left + self.side) * width))

    def visible(self, height: int, width: int) -> npt.NDArray[np.float32]:
        """1 where a picture of this size shows through, and 0 where it is covered."""
        rows, columns = (np.arange(side) * GRID // side for side in (height, width))
        return 1 - self.covered[rows][:, columns].astype(np.float32)

    def __call__(self, images: Images) -> Images:
        """What the view shows of ``images`` (N, 3, H, W)."""
        height, width = images.shape[-2:]
        rows, columns = self.window(height, width)
        shown = 0.5 + (images - 0.5) * self.visible(height, width)
        return np.ascontiguousarray(shown[:, :, rows, columns])


def draw_views(rng: np.random.Generator, count: int, least: float, covered: float) -> list[View]:
    """``count`` windows of at least the share ``least`` of a side, blocks covered at random."""
    views = []
    for _ in range(count):
        side = rng.uniform(least, 1)
        top, left = rng.uniform(0, 1 - side, 2)
        views.append(View(top, left, side, rng.random((GRID, GRID)) < covered))
    return views


class KeyedViews(ImageHash):
    """A hash that looks at a picture through views which only the holder of the key knows."""

    name = "keyed-views"
    input_size = (256, 256)

    def __init__(self, inner: str, key: Key, views: int, least: float, covered: float) -> None:
        self.inner, self.views, self.least, self.covered = load_hash(inner), views, least, covered
        self.calibration = self.inner.calibration
        seed = int.from_bytes(bytes(islice(key.stream("views"), 16)), "big")
        self._views = draw_views(np.random.default_rng(seed), views, least, covered)

    def logits(self, images: Images) -> Logits:
        """The mean of the inner hash's logits over the views."""
        return np.mean([hash_logits(self.inner, view(images)) for view in self._views], axis=0)


class SeveralHashes(ImageHash):
    """Several hashes that must all agree: each gives an equal share of the code.

    Logits are brought to log-odds, so that one calibration fits all of them.
    """

    name = "several"
    input_size = (256, 256)
    calibration = Calibration()

    def __init__(self, inner: Sequence[str]) -> None:
        self.inner = [load_hash(name) for name in inner]

    def logits(self, images: Images) -> Logits:
        """The first bits of each hash, one hash after the other."""
        share = CODE_BITS // len(self.inner)
        parts = [_log_odds(hash_logits(hash, images)[:, :share], hash) for hash in self.inner]
        return np.concatenate(parts, axis=1)


def _log_odds(logits: Logits, image_hash: ImageHash) -> Logits:
    confidence = image_hash.calibration.confidence(logits)
    odds: Logits = (np.sign(logits) * np.log(confidence / (1 - confidence))).astype(np.float32)
    return odds


SMALL_CHANGES: tuple[Distortion, ...] = (
    GaussianNoise(0.02),
    GaussianBlur(0.8),
    Jpeg(75),
    Crop(0.94, anywhere=True),
)


def instability(
    image_hash: ImageHash, picture: npt.NDArray[np.uint8], rng: np.random.Generator
) -> float:
    """The share of code bits that small random changes of a picture (H, W, 3) flip."""
    pictures = [picture, *(change(picture, rng) for change in SMALL_CHANGES)]
    codes = np.concatenate([hash_logits(image_hash, to_float(p)[None]) for p in pictures]) > 0
    return float((codes[1:] != codes[0]).mean())


@dataclass(frozen=True)
class Several:
    """Several hashes at once, each brought to logits of mean magnitude one."""

    inner: tuple[WhiteBox, ...]

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """The first bits of each hash, as ``SeveralHashes`` takes them."""
        share = CODE_BITS // len(self.inner)
        parts = [hash.logits(pictures, rng)[:, :share] for hash in self.inner]
        return torch.cat([part / part.detach().abs().mean() for part in parts], dim=1)


@dataclass(frozen=True)
class GuessedViews:
    """A hash behind secret or random views: the attacker draws their own, new ones at each step."""

    inner: WhiteBox
    views: int
    least: float
    covered: float
    noise: float = 0.0
    """Deviation of noise that is added to every view."""

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """The mean of the logits over freshly drawn views."""
        height, width = pictures.shape[-2:]
        total = torch.zeros(())
        for view in draw_views(rng, self.views, self.least, self.covered):
            visible = torch.from_numpy(view.visible(height, width))
            rows, columns = view.window(height, width)
            seen = (0.5 + (pictures - 0.5) * visible)[:, :, rows, columns]
            grain = rng.standard_normal(seen.shape[1:], dtype=np.float32)
            total = total + self.inner.logits(seen + self.noise * torch.from_numpy(grain), rng)
        return total / self.views
