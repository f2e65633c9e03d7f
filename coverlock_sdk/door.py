"""The door between callers and plugins: any kind of picture in, plain arrays through, kind out.

``contract`` puts these guards around the methods that a plugin implements, so that a vendor
writes array code for one picture size and every caller gets all sizes, all kinds, and one
clear sentence when something is wrong on either side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import CoverLockError, PluginError
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import read_batch, refuse_shared_outputs
from coverlock_sdk.locking.messages import as_bits

if TYPE_CHECKING:
    from coverlock_sdk.contract import ImageHash, Watermark

Method = Callable[..., Any]


def guard(cls: type, name: str, passage: Callable[..., Any]) -> None:
    """Send calls of ``cls.name`` through ``passage``, wherever ``cls`` has the method from."""
    method = getattr(cls, name)
    if getattr(method, "__isabstractmethod__", False) or hasattr(method, "behind_door"):
        return

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        return passage(functools.partial(method, self), self, *args, **kwargs)

    guarded.behind_door = True  # type: ignore[attr-defined]
    setattr(cls, name, guarded)


def embedding(method: Method, watermark: Watermark, images: Any, payloads: Any) -> Any:
    """Embed at the native size and carry the residual onto pictures of any other size."""
    refuse_shared_outputs(images)
    batch = read_batch(images)
    bits = as_bits(payloads, len(batch.pictures), watermark.bits)
    views = batch.views(watermark.native_size)
    marked = _call(method, watermark.name, "embed", views.shape, views.copy(), bits)
    residuals = marked - views
    pairs = zip(batch.pictures, residuals, strict=True)
    return batch.values([picture.with_residual(residual) for picture, residual in pairs])


def decoding(method: Method, watermark: Watermark, images: Any) -> Any:
    """Decode pictures of any size at the native one."""
    batch = read_batch(images)
    views = batch.views(watermark.native_size)
    shape = (len(batch.pictures), watermark.bits)
    return batch.as_tensor(_call(method, watermark.name, "decode", shape, views))


def hashing(method: Method, image_hash: ImageHash, images: Any) -> Any:
    """Hash pictures of any size at the hash's own one."""
    batch = read_batch(images)
    views = batch.views(image_hash.input_size)
    shape = (len(batch.pictures), CODE_BITS)
    return batch.as_tensor(_call(method, image_hash.name, "logits", shape, views))


def _call(
    method: Method, plugin: str, action: str, shape: tuple[int, ...], *arrays: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    """Run a plugin's method and hold it to its promise: this shape, finite floats."""
    if shape[0] == 0:
        return np.zeros(shape, dtype=np.float32)
    try:
        result = np.asarray(method(*arrays), dtype=np.float32)
    except CoverLockError:
        raise
    except Exception as error:
        raise PluginError(
            f"plugin '{plugin}' failed in {action}: {type(error).__name__}: {error}"
        ) from error
    if result.shape != shape:
        raise PluginError(
            f"plugin '{plugin}' returned shape {result.shape} from {action}, not {shape}"
        )
    if not np.isfinite(result).all():
        raise PluginError(f"plugin '{plugin}' returned NaN or infinite values from {action}")
    return result
