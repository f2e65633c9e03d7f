"""Reads every kind of picture into a ``Picture``, and converts it back to that kind.

A kind is a path, the bytes of a file, a PIL image, a NumPy array or a PyTorch tensor; many
pictures come as a list or as one 4-D array. This is the only place that knows about kinds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.Image import Image as PilImage

from coverlock_sdk.arrays import AnyArray
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import (
    GAIN_MAP,
    KEPT_INFO,
    explained,
    load_image,
    refuse_animation,
    upright_image,
)
from coverlock_sdk.images.colours import require_opaque, shown
from coverlock_sdk.images.picture import MAX_PIXELS, Picture, require_size

Restore = Callable[[Picture], Any]
"""Converts a picture back to the kind that was read; files come back as PIL images."""


class Given:
    """One picture or many, as a caller passed them. Iterating reads them one by one.

    ``seen_at`` is the size to which pictures will be resampled: large JPEG files may be decoded at
    a fraction of theirs. ``whole`` decodes some of them again, at their own size.
    """

    def __init__(
        self,
        source: Any,
        max_pixels: int = MAX_PIXELS,
        seen_at: tuple[int, int] | None = None,
        whole: Callable[[int], Any] | None = None,
    ) -> None:
        self.single = not isinstance(source, list | tuple) and getattr(source, "ndim", 0) != 4
        self.items: Sequence[Any] = [source] if self.single else source
        self.max_pixels, self.seen_at, self._whole = max_pixels, seen_at, whole
        self._source = source
        self._aspects: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Picture]:
        return map(self.picture, range(len(self)))

    def picture(self, row: int) -> Picture:
        """One of the pictures."""
        picture = read(self.items[row], self.max_pixels, self.seen_at)
        self._aspects[row] = picture.aspect
        return picture

    def aspect(self, row: int) -> float:
        """The width of one of the pictures over its height."""
        if row not in self._aspects:
            self.picture(row)
        return self._aspects[row]

    def parts(self, size: int) -> Iterator[list[Picture]]:
        """The pictures, at most ``size`` of them in memory at a time."""
        for start in range(0, len(self), size):
            yield [self.picture(row) for row in range(start, min(start + size, len(self)))]

    def may_be_a_fraction(self, row: int) -> bool:
        """Whether some pictures may have been decoded at a fraction of their size."""
        if self._whole is not None:
            return True
        is_file = is_path(self.items[row]) or isinstance(self.items[row], bytes)
        return is_file and self.seen_at is not None

    def whole(self, rows: Sequence[int]) -> Given:
        """Some of the pictures, decoded at their own size."""
        give = self._whole or self.items.__getitem__
        return Given([give(row) for row in rows], self.max_pixels)

    @property
    def paths(self) -> list[str | None]:
        """Where each picture came from; None for what was not given as a path."""
        return [str(item) if is_path(item) else None for item in self.items]

    def collected(self, values: list[Any]) -> Any:
        """One value per picture, in the container that the pictures came in."""
        if self.single:
            return values[0]
        if isinstance(self._source, list | tuple):
            return values
        if not values:
            return self._source
        return sys.modules["torch"].stack(values) if _is_tensor(values[0]) else np.stack(values)

    def like_given(self, values: AnyArray) -> Any:
        """An array as a tensor for a caller who came with tensors; otherwise unchanged."""
        if len(self) and all(_is_tensor(item) for item in self.items):
            return _tensor_like(self.items[0], values)
        return values


def read(
    source: Any, max_pixels: int = MAX_PIXELS, seen_at: tuple[int, int] | None = None
) -> Picture:
    """Read one picture of any kind to judge it; ``Given`` explains the limits."""
    return opened(source, max_pixels, seen_at, judged=True)[0]


def is_path(source: Any) -> bool:
    """Whether a picture was given as the path of a file."""
    return isinstance(source, str | os.PathLike)


def opened(
    source: Any,
    max_pixels: int = MAX_PIXELS,
    seen_at: tuple[int, int] | None = None,
    judged: bool = False,
) -> tuple[Picture, Restore]:
    """One picture of any kind, and the way back to that kind.

    If it will be ``judged``, a file that also holds a rendition for HDR screens is refused. Marking
    drops that rendition.
    """
    if isinstance(source, Picture):
        return source, lambda picture: picture
    if is_path(source) or isinstance(source, bytes):
        file = source if isinstance(source, bytes) else Path(source)
        image = load_image(file, max_pixels, seen_at)
        if judged and GAIN_MAP in image.info:
            raise PictureError(
                "the file holds a second rendition for HDR screens (a gain map), which may show "
                "another picture: save it without the gain map"
            )
        return _from_pil(image)
    if _is_tensor(source):
        plain = source.detach().cpu()
        values = (plain.float() if plain.is_floating_point() else plain).numpy()
        picture, restore = _from_array(values)
        return picture, lambda other: _tensor_like(source, restore(other)).to(source.dtype)
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if isinstance(source, PilImage):
        with explained("the image"):
            upright = upright_image(source)
        return _from_pil(upright)
    raise PictureError(
        f"a {type(source).__name__} is not a picture: "
        "pass a path, the bytes of a file, a PIL image, a NumPy array or a PyTorch tensor"
    )


def _from_pil(source: PilImage) -> tuple[Picture, Restore]:
    """The picture of an upright image."""
    with explained("the image"):
        refuse_animation(source)
        image = shown(source)
        values = np.asarray(image)
    values = values[..., None] if values.ndim == 2 else values
    if image.mode.startswith("I"):
        if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
            raise PictureError("a 32-bit integer picture has values beyond 16 bits: convert it")
        values = values.astype(np.uint16)
    has_alpha = image.mode in ("LA", "RGBA")
    pixels, alpha = (values[..., :-1], values[..., -1:]) if has_alpha else (values, None)
    info: dict[Any, Any] = {key: image.info[key] for key in KEPT_INFO if key in image.info}

    def restore(picture: Picture) -> PilImage:
        stacked = picture.layers()
        result = Image.fromarray(stacked[..., 0] if stacked.shape[-1] == 1 else stacked)
        result.info.update(info)
        return result

    return require_opaque(Picture(np.ascontiguousarray(pixels), alpha)), restore


def _from_array(values: AnyArray) -> tuple[Picture, Restore]:
    """Integer arrays are (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); floats are (3, H, W)."""
    if values.dtype in (np.uint8, np.uint16):
        return _from_integers(values)
    if not np.issubdtype(values.dtype, np.floating):
        raise PictureError(
            f"an array of {values.dtype} is not a picture: use uint8, uint16, or floats in [0, 1]"
        )
    if values.ndim != 3 or values.shape[0] not in (1, 3):
        raise PictureError(
            f"a float array of shape {values.shape} is not a picture: "
            "float pictures are channels-first, (3, H, W) or (N, 3, H, W)"
        )
    low, high = float(values.min()), float(values.max())
    if not -1e-3 <= low <= high <= 1 + 1e-3:  # as NaN is not
        raise PictureError(
            f"float pictures are in [0, 1], but this one reaches from {low:.4g} to {high:.4g}"
        )
    pixels = np.clip(np.moveaxis(values.astype(np.float32), 0, -1), 0, 1)

    return Picture(pixels), lambda other: np.ascontiguousarray(
        np.moveaxis(other.pixels, -1, 0).astype(values.dtype)
    )


def _from_integers(values: AnyArray) -> tuple[Picture, Restore]:
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (1, 3, 4)):
        raise PictureError(
            f"an integer array of shape {values.shape} is not a picture: "
            "integer pictures are channels-last, (H, W), (H, W, 3) or (N, H, W, 3)"
        )
    require_size(*values.shape[:2])
    layers = values.reshape(*values.shape[:2], -1)
    pixels, alpha = (layers[..., :3], layers[..., 3:]) if layers.shape[2] == 4 else (layers, None)
    picture = require_opaque(Picture(pixels, alpha))
    return picture, lambda other: other.layers().reshape(values.shape)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _tensor_like(reference: Any, values: AnyArray) -> Any:
    return sys.modules["torch"].from_numpy(np.array(values)).to(reference.device)
