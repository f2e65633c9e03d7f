"""Calls of a plugin's methods, with checks of what they return: the shape, finite numbers.

A broken promise raises a ``PluginError`` that names the plugin and the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coverlock_sdk.arrays import AnyArray, Bits, Images, Logits
from coverlock_sdk.contract import ImageHash, Watermark
from coverlock_sdk.errors import CoverLockError, PluginError
from coverlock_sdk.images.picture import Picture, levels
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.threads import one_thread

ANY_SIZE_SIDE = 256
"""Side of the squares on which a watermark of any size is measured, unless said otherwise."""


def embed(watermark: Watermark, views: Images, payloads: Bits) -> Images:
    """Pictures of the watermark's size with ``payloads`` in them; ``views`` is left alone."""
    marked = _called(watermark.embed, watermark.name, "embed", views.shape, views.copy(), payloads)
    if marked.size and not -1 <= marked.min() <= marked.max() <= 2:
        raise PluginError(
            f"plugin '{watermark.name}' returned pictures from {marked.min():.4g} to "
            f"{marked.max():.4g} from embed: return RGB in [0, 1]"
        )
    return marked


def decode(watermark: Watermark, views: Images) -> Logits:
    """The payload logits of pictures of the watermark's size; hard bits become -1 and 1."""
    shape = (len(views), watermark.bits)
    logits = _called(watermark.decode, watermark.name, "decode", shape, views)
    if watermark.hard_bits:
        if not _zeros_and_ones(logits):
            raise PluginError(
                f"plugin '{watermark.name}' sets hard_bits, but decode returned values other "
                "than 0 and 1: return bits, or logits without hard_bits"
            )
        return 2 * logits - 1
    if _are_bits(logits):
        raise PluginError(
            f"plugin '{watermark.name}' returned only 0 and 1 from decode instead of logits: "
            "return values above 0 for ones and below 0 for zeros, or set hard_bits = True"
        )
    return logits


def describe(image_hash: ImageHash, views: Images) -> Images | Logits:
    """What a hash keeps of pictures of one size, which are resampled to the hash's own."""
    if image_hash.registers:
        return resample(views, image_hash.input_size)
    return hash_logits(image_hash, views)


def hash_logits(image_hash: ImageHash, views: Images) -> Logits:
    """The hash logits of pictures of one size, which are resampled to the hash's own."""
    shape = (len(views), image_hash.dimensions)
    seen = resample(views, image_hash.input_size)
    logits = _called(image_hash.logits, image_hash.name, "logits", shape, seen)
    if _are_bits(logits):
        raise PluginError(
            f"plugin '{image_hash.name}' returned only 0 and 1 from logits: return values above 0 "
            "for ones and below 0 for zeros, such as 2.0 * bits - 1"
        )
    return logits


def fixed_size(watermark: Watermark, purpose: str) -> tuple[int, int]:
    """The size a watermark works at; an error names the ``purpose`` that needs a fixed size."""
    if watermark.native_size is None:
        raise CoverLockError(
            f"the watermark '{watermark.name}' takes pictures of any size (native_size is None), "
            f"but {purpose} needs one size: set native_size to the one it should work at"
        )
    return watermark.native_size


def working_size(watermark: Watermark, side: int = ANY_SIZE_SIDE) -> tuple[int, int]:
    """The size at which a watermark is measured: its own, or squares of ``side``."""
    return watermark.native_size or (side, side)


class Networks:
    """The networks of a watermark and of a hash, on views (3, H, W) of one size or of many."""

    def __init__(self, watermark: Watermark, image_hash: ImageHash | None) -> None:
        self.watermark = watermark
        self.hash = image_hash

    def views(self, pictures: Sequence[Picture]) -> list[Images]:
        """What the watermark sees of pictures, in 8 bits: at its own size, or each as it is."""
        return [picture.seen_at(self.watermark.native_size) for picture in pictures]

    def logits(self, views: Sequence[Images]) -> tuple[Logits, Any]:
        """Payload logits of each view, and what the hash keeps of it."""
        described = self.described(views)  # before a careless decoder writes into the views
        return self.decoded(views), described

    def residuals(self, views: Sequence[Images], payloads: Bits) -> list[Images]:
        """What embedding adds to each view."""
        return _by_size(
            views, lambda same, rows: embed(self.watermark, same, payloads[rows]) - same
        )

    def decoded(self, views: Sequence[Images]) -> Logits:
        """The payload logits of each view: (N, bits)."""
        rows = _by_size(views, lambda same, _: decode(self.watermark, same))
        return np.reshape(rows, (len(views), self.watermark.bits))

    def described(self, views: Sequence[Images]) -> Any:
        """What the hash keeps of each view: (N, ...), or (N, 0) without a hash."""
        image_hash = self.hash
        if image_hash is None or not len(views):
            return np.empty((len(views), 0), dtype=np.float32)
        if self.watermark.native_size is None:  # a graph sees these at the hash's size, in 8 bits
            seen = [levels(resample(view[None], image_hash.input_size)[0]) for view in views]
            views = [each.astype(np.float32) / np.float32(255) for each in seen]
        return np.stack(_by_size(views, lambda same, _: describe(image_hash, same)))


def _by_size(views: Sequence[Images], call: Callable[[Images, list[int]], Images]) -> list[Images]:
    """One answer per view; views of the same size share one call."""
    answers: dict[int, Images] = {}
    for shape in dict.fromkeys(view.shape for view in views):
        rows = [row for row, view in enumerate(views) if view.shape == shape]
        answers.update(zip(rows, call(np.stack([views[r] for r in rows]), rows), strict=True))
    return [answers[row] for row in range(len(views))]


def _called(
    method: Callable[..., Any], plugin: str, action: str, shape: tuple[int, ...], *arrays: AnyArray
) -> Images:
    if shape[0] == 0:
        return np.zeros(shape, dtype=np.float32)
    try:
        with one_thread:
            result = method(*arrays)
    except CoverLockError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise PluginError(f"plugin '{plugin}' failed in {action}: {what}") from error
    wrong = None
    if not isinstance(result, np.ndarray):
        wrong = f"{_kind(result)} from {action}, not a NumPy array"
    elif result.shape != shape:
        wrong = f"shape {result.shape} from {action}, not {shape}"
    elif result.dtype.kind not in "fiub":
        wrong = f"{result.dtype} from {action}, not numbers"
    elif not np.isfinite(result).all():
        wrong = f"NaN or infinite values from {action}"
    if wrong:
        raise PluginError(f"plugin '{plugin}' returned {wrong}")
    floats: Images = result.astype(np.float32, copy=False)
    return floats


def _kind(value: object) -> str:
    """What a plugin returned instead of an array, with the usual remedy if there is one."""
    if value is None:
        return "None (is a 'return' missing?)"
    if hasattr(value, "detach"):
        return f"a {type(value).__name__} (add .detach().cpu().numpy())"
    return f"a {type(value).__name__}"


def _are_bits(logits: Logits) -> bool:
    """Whether a plugin answered in bits; a blank picture may give zeros alone."""
    return logits.size > 1 and _zeros_and_ones(logits) and bool(logits.any())


def _zeros_and_ones(values: Logits) -> bool:
    return bool(((values == 0) | (values == 1)).all())
