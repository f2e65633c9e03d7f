"""Reading pictures of every kind, adding a residual to them, and giving them back.

A picture keeps what a photographer cares about: its size, bit depth, transparency, colour
profile and metadata. Turned phone pictures are set upright. The networks only ever see
``view(size)``: RGB in [0, 1], transparency over white, canonically resampled.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import DepthWarning, PictureError
from coverlock_sdk.images.resampling import lift_matrix, resample_matrix

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

MIN_SIDE = 32
"""Pixels below which no watermark can be carried, so that a picture is refused."""

MAX_SIDE = 32_768
MAX_PIXELS = 178_956_970
"""Pixels above which a file is taken for a decompression bomb (Pillow's own limit)."""

LOSSLESS_SUFFIXES = (".png", ".tif", ".tiff", ".webp", ".bmp")
LOSSY_SUFFIXES = (".jpg", ".jpeg", ".avif")
PICTURE_SUFFIXES = (*LOSSLESS_SUFFIXES, *LOSSY_SUFFIXES, ".gif")

_HELD_MODES = {
    ".webp": ("RGB", "RGBA"),
    ".avif": ("RGB", "RGBA"),
    ".bmp": ("L", "RGB"),
    ".jpg": ("L", "RGB"),
    ".jpeg": ("L", "RGB"),
}
"""What formats hold; Pillow would quietly convert the rest."""

_KEPT_INFO = ("icc_profile", "exif", "dpi")
_STRIP_ROWS = 256  # pictures are processed in strips, so that memory stays near the file's own
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as in JPEG and Pillow

Pixels = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Picture:
    """One picture, whatever it came as, and the way back to that kind."""

    pixels: Pixels
    """(H, W, 1 or 3); uint8, uint16, or float32 in [0, 1]."""
    alpha: Pixels | None
    """(H, W, 1) of the same type, or None where the picture is opaque."""
    rebuild: Callable[[Picture], Any]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def view(self, size: tuple[int, int]) -> FloatArray:
        """What a network of input ``size`` sees of this picture: (3, *size) in [0, 1]."""
        height, width = self.size
        rows, columns = resample_matrix(height, size[0]), resample_matrix(width, size[1])
        seen = np.zeros((3, size[0], width), dtype=np.float32)
        for strip in _strips(height):
            opaque = self._opaque(strip)
            if height == size[0]:
                seen[:, strip] = opaque
                continue
            touched = np.flatnonzero(rows[:, strip].any(axis=1))
            seen[:, touched] += rows[touched, strip] @ opaque
        return seen if width == size[1] else seen @ columns.T

    def with_residual(self, residual: FloatArray) -> Picture:
        """This picture plus ``residual`` (3, h, w), carried to its size, rounded to its depth."""
        height, width = self.size
        rows = lift_matrix(residual.shape[1], height)
        columns = lift_matrix(residual.shape[2], width)
        across = residual if residual.shape[2] == width else residual @ columns.T
        marked = np.empty_like(self.pixels)
        for strip in _strips(height):
            part = across[:, strip] if residual.shape[1] == height else rows[strip] @ across
            part = np.moveaxis(part, 0, -1)
            if self.pixels.shape[2] == 1:
                part = (part @ _LUMA)[..., None]
            marked[strip] = self._quantise(np.add(self._unit(self.pixels[strip]), part))
        return replace(self, pixels=marked)

    def value(self) -> Any:
        """The picture as the kind of thing it was read from."""
        return self.rebuild(self)

    def to_bytes(self, size: tuple[int, int] | None = None) -> npt.NDArray[np.uint8]:
        """The visible picture as 8-bit RGB (H, W, 3), at its own size or at ``size``."""
        size = size or self.size
        plain = self.pixels.dtype == np.uint8 and self.pixels.shape[2] == 3 and self.alpha is None
        if plain and size == self.size:
            return self.pixels.copy()
        seen = np.moveaxis(self.view(size), 0, -1)
        return np.rint(np.clip(seen, 0, 1) * 255).astype(np.uint8)

    def psnr(self, other: Picture) -> float:
        """Peak signal-to-noise ratio in decibels between this picture and ``other``."""
        total = 0.0
        for strip in _strips(self.size[0]):
            difference = self._unit(self.pixels[strip]) - self._unit(other.pixels[strip])
            total += float(np.square(difference, dtype=np.float64).sum())
        return float("inf") if total == 0 else -10 * float(np.log10(total / self.pixels.size))

    def _unit(self, values: Pixels) -> FloatArray:
        if values.dtype == np.float32:
            return values
        unit: FloatArray = values.astype(np.float32) / np.float32(np.iinfo(values.dtype).max)
        return unit

    def _quantise(self, values: FloatArray) -> Pixels:
        values = np.clip(values, 0.0, 1.0)
        if self.pixels.dtype == np.float32:
            return values
        return np.rint(values * np.iinfo(self.pixels.dtype).max).astype(self.pixels.dtype)

    def _opaque(self, strip: slice) -> FloatArray:
        colour = self._unit(self.pixels[strip])
        if self.alpha is not None:
            opacity = self._unit(self.alpha[strip])
            colour = colour * opacity + (1.0 - opacity)
        # Contiguous planes: NumPy multiplies strided ones without BLAS, twenty times slower.
        planes = np.ascontiguousarray(np.moveaxis(colour, -1, 0))
        return np.broadcast_to(planes, (3, *planes.shape[1:]))


def _strips(height: int) -> Iterator[slice]:
    for top in range(0, height, _STRIP_ROWS):
        yield slice(top, min(top + _STRIP_ROWS, height))


@dataclass(frozen=True)
class Batch:
    """Several pictures, and the way back to the container they came in."""

    pictures: list[Picture]
    assemble: Callable[[list[Any]], Any]
    single: bool
    """Whether the caller gave one picture rather than a collection."""
    as_tensor: Callable[[npt.NDArray[Any]], Any]
    """Gives arrays back as tensors to a caller who came with tensors; otherwise unchanged."""

    def views(self, size: tuple[int, int]) -> FloatArray:
        """The (N, 3, *size) array a network sees."""
        return stacked_views(self.pictures, size)

    def values(self, pictures: Sequence[Picture]) -> Any:
        """``pictures`` as the kind of collection that was read."""
        return self.assemble([picture.value() for picture in pictures])


def stacked_views(pictures: Sequence[Picture], size: tuple[int, int]) -> FloatArray:
    """What a network of input ``size`` sees of ``pictures``: (N, 3, *size) in [0, 1]."""
    views = np.empty((len(pictures), 3, *size), dtype=np.float32)
    for row, picture in enumerate(pictures):
        views[row] = picture.view(size)
    return views


def read_batch(source: Any) -> Batch:
    """Read one picture or many: a path, PIL image, array or tensor, a 4-D stack, or a list."""
    if isinstance(source, list | tuple):
        pictures = [read(item) for item in source]
        tensors = bool(source) and all(_is_tensor(item) for item in source)
        return Batch(pictures, list, False, _tensor_like(source[0]) if tensors else _unchanged)
    as_tensor = _tensor_like(source) if _is_tensor(source) else _unchanged
    if getattr(source, "ndim", 0) == 4:
        pictures = [read(item) for item in source]
        return Batch(pictures, lambda v: _stack(v) if v else source, False, as_tensor)
    return Batch([read(source)], lambda values: values[0], True, as_tensor)


def refuse_shared_outputs(source: Any) -> None:
    """Refuse a list of paths of which two would be written to the same file."""
    if not isinstance(source, list | tuple):
        return
    outputs = [default_output(Path(s)) for s in source if isinstance(s, str | os.PathLike)]
    for path, count in Counter(outputs).items():
        if count > 1:
            raise PictureError(f"{count} pictures would all be written to {path}: embed one by one")


def read(source: Any) -> Picture:
    """Read one picture of any kind the SDK accepts."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _from_pil(load_image(path), lambda image: save_image(image, default_output(path)))
    if isinstance(source, bytes):
        return _from_pil(decode_image(source), lambda image: image)
    if _is_tensor(source):
        plain = source.detach().cpu()
        picture = _from_array((plain.float() if plain.is_floating_point() else plain).numpy())
        restore, back = _tensor_like(source), picture.rebuild
        return replace(picture, rebuild=lambda marked: restore(back(marked)).to(source.dtype))
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if type(source).__module__.startswith("PIL.") or hasattr(source, "getbands"):
        with _pillow("the image"):
            upright = _upright(source)
        return _from_pil(upright, lambda image: image)
    raise PictureError(
        f"a {type(source).__name__} is not a picture: "
        "give a path, the bytes of a file, a PIL image, a NumPy array or a PyTorch tensor"
    )


def load_image(path: Path) -> PilImage:
    """Decode a picture file, upright, or say in one sentence why that is impossible."""
    try:
        if path.is_dir():
            raise PictureError(f"{path} is a folder: name a picture file")
        with path.open("rb") as file:
            return _decode(file, path.stat().st_size, str(path))
    except FileNotFoundError:
        raise PictureError(f"{path} does not exist") from None
    except PermissionError:
        raise PictureError(f"{path} cannot be read: permission denied") from None
    except OSError as error:
        raise PictureError(f"{path} cannot be read ({error.strerror or error})") from None


def decode_image(content: bytes, max_pixels: int | None = None) -> PilImage:
    """Decode the content of a picture file, like ``load_image``; nothing above ``max_pixels``."""
    return _decode(io.BytesIO(content), len(content), "the picture", max_pixels)


def _decode(file: BinaryIO, size: int, name: str, max_pixels: int | None = None) -> PilImage:
    from PIL import Image

    if size == 0:
        raise PictureError(f"{name} is empty (0 bytes)")
    with _pillow(name):
        image = Image.open(file)
        _refuse_size(image.height, image.width, max_pixels or MAX_PIXELS)
        _refuse_animation(image)
        colour = image.mode in ("RGB", "RGBA", "LA")
        deep = colour and any(";16" in str(tile) for tile in getattr(image, "tile", []))
        upright = _upright(image)
    if deep:
        warnings.warn(
            f"{name} has 16 bits per channel and is read at 8, which is all Pillow holds: "
            "pass a NumPy uint16 array to keep its depth",
            DepthWarning,
            stacklevel=4,
        )
    return upright


@contextlib.contextmanager
def _pillow(name: str) -> Iterator[None]:
    """Make one sentence of whatever Pillow raises: each of its decoders has errors of its own."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(
            f"{name} would decode to more than {MAX_PIXELS:,} pixels and was not opened"
        ) from None
    except UnidentifiedImageError:
        raise PictureError(f"{name} is not a picture in a format Pillow can read") from None
    except MemoryError:
        raise PictureError(f"{name} does not fit into memory") from None
    except Exception as error:
        raise PictureError(f"{name} is truncated or damaged ({_in_one_line(error)})") from None


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _upright(image: PilImage) -> PilImage:
    """``image`` turned as its EXIF says; where that cannot be read, as it is and without it."""
    from PIL import ExifTags, Image, ImageOps

    image.load()
    try:
        Image.Exif().load(image.info.get("exif", b""))  # Pillow hides it where it opened a JPEG
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return ImageOps.exif_transpose(image) if turned else image
    except MemoryError:
        raise
    except Exception:
        plain = image.copy()
        plain.info.pop("exif", None)
        return plain


def default_output(path: Path) -> Path:
    """Where a marked picture goes when nothing was said: a PNG beside the original."""
    return path.with_name(f"{path.stem}.marked.png")


def save_image(image: PilImage, path: Path) -> Path:
    """Write ``image`` with its profile and metadata; the file appears whole or not at all."""
    write_file(path, encode_image(image, path.suffix))
    return path


def encode_image(image: PilImage, suffix: str) -> bytes:
    """The bytes of ``image`` in the format that ``suffix`` names: lossless where it can be."""
    from PIL import Image

    suffix = suffix.lower()
    if suffix in _HELD_MODES and image.mode not in _HELD_MODES[suffix]:
        raise PictureError(
            f"a picture of mode {image.mode} cannot be saved as '{suffix}' without loss: use .png"
        )
    options: dict[str, Any] = {}
    if suffix in (".jpg", ".jpeg"):
        options = {"quality": 95, "subsampling": 0}
    elif suffix == ".webp":
        options = {"lossless": True, "exact": True}
    elif suffix in (".tif", ".tiff"):
        options = {"compression": "tiff_deflate"}
    elif suffix == ".avif":
        options = {"quality": 90}
    elif suffix not in LOSSLESS_SUFFIXES:
        known = ", ".join((*LOSSLESS_SUFFIXES, *LOSSY_SUFFIXES))
        raise PictureError(f"cannot save as '{suffix}': use one of {known}")
    for entry in _KEPT_INFO:
        if image.info.get(entry):
            options[entry] = image.info[entry]
    file = io.BytesIO()
    try:
        image.save(file, format=Image.registered_extensions()[suffix], **options)
    except Exception as error:  # each of Pillow's encoders has errors of its own
        raise PictureError(
            f"a picture of mode {image.mode} cannot be saved as '{suffix}' "
            f"({_in_one_line(error)}): use .png"
        ) from None
    return file.getvalue()


def write_file(path: Path, content: bytes) -> None:
    """Write an output file whole or not at all, or say in one sentence why that is impossible."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise PictureError(f"{path} cannot be written ({error.strerror or error})") from None


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write through a temporary file in the same folder, so that nothing half-written remains."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _from_pil(source: PilImage, deliver: Callable[[PilImage], Any]) -> Picture:
    """The picture of an upright image."""
    from PIL import Image

    with _pillow("the image"):
        _refuse_animation(source)
        image = _plain_mode(source)
        values = np.asarray(image)
    values = values[..., None] if values.ndim == 2 else values
    if image.mode.startswith("I"):
        values = _sixteen_bit(values)
    has_alpha = image.mode in ("LA", "RGBA")
    pixels, alpha = (values[..., :-1], values[..., -1:]) if has_alpha else (values, None)
    info: dict[Any, Any] = {key: image.info[key] for key in _KEPT_INFO if key in image.info}

    def rebuild(picture: Picture) -> Any:
        channels = [picture.pixels] if picture.alpha is None else [picture.pixels, picture.alpha]
        stacked = np.concatenate(channels, axis=-1)
        result = Image.fromarray(stacked[..., 0] if stacked.shape[-1] == 1 else stacked)
        result.info.update(info)
        return deliver(result)

    return _checked(Picture(np.ascontiguousarray(pixels), alpha, rebuild))


def _refuse_animation(image: PilImage) -> None:
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # which phones use for one photo with a preview
        raise PictureError(
            f"an animation of {frames} frames is not one picture: mark its frames one by one"
        )


def _plain_mode(image: PilImage) -> PilImage:
    """Bring an image to L, LA, RGB, RGBA or 16-bit grey without losing what can be seen."""
    if "transparency" in image.info or image.mode in ("PA", "La", "RGBa"):
        return image.convert("LA" if image.mode in ("1", "L", "La") else "RGBA")
    if image.mode in ("L", "LA", "RGBA") or image.mode.startswith("I"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode == "CMYK" and image.info.get("icc_profile"):
        return _cmyk_to_srgb(image)
    if image.mode == "F":
        raise PictureError("a floating-point (mode F) image has no defined white: convert it first")
    return image if image.mode == "RGB" else image.convert("RGB")


def _cmyk_to_srgb(image: PilImage) -> PilImage:
    from PIL import ImageCms

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
        converted = ImageCms.profileToProfile(
            image, source, ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    except ImageCms.PyCMSError:
        converted = image.convert("RGB")
    assert converted is not None
    converted.info.pop("icc_profile", None)
    return converted


def _sixteen_bit(values: Pixels) -> Pixels:
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise PictureError("a 32-bit integer picture has values beyond 16 bits: convert it first")
    return values.astype(np.uint16)


def _from_array(values: Pixels) -> Picture:
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
    if not np.isfinite(values).all():
        raise PictureError("the picture contains NaN or infinite values")
    low, high = float(values.min()), float(values.max())
    if low < -1e-3 or high > 1 + 1e-3:
        raise PictureError(
            f"float pictures are in [0, 1], but this one reaches from {low:.4g} to {high:.4g}"
        )
    pixels = np.clip(np.moveaxis(values.astype(np.float32), 0, -1), 0, 1)
    return _checked(
        Picture(
            pixels,
            None,
            lambda picture: np.ascontiguousarray(
                np.moveaxis(picture.pixels, -1, 0).astype(values.dtype)
            ),
        )
    )


def _from_integers(values: Pixels) -> Picture:
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (1, 3, 4)):
        raise PictureError(
            f"an integer array of shape {values.shape} is not a picture: "
            "integer pictures are channels-last, (H, W), (H, W, 3) or (N, H, W, 3)"
        )
    layers = values.reshape(*values.shape[:2], -1)
    pixels, alpha = (layers[..., :3], layers[..., 3:]) if layers.shape[2] == 4 else (layers, None)

    def rebuild(picture: Picture) -> Any:
        if picture.alpha is None:
            return picture.pixels.reshape(values.shape)
        return np.concatenate([picture.pixels, picture.alpha], axis=-1)

    return _checked(Picture(pixels, alpha, rebuild))


def _checked(picture: Picture) -> Picture:
    _refuse_size(*picture.size)
    return picture


def _refuse_size(height: int, width: int, max_pixels: int = MAX_PIXELS) -> None:
    if min(height, width) < MIN_SIDE:
        raise PictureError(
            f"a picture of {width} x {height} pixels is too small to carry a mark: "
            f"both sides must have at least {MIN_SIDE}"
        )
    if max(height, width) > MAX_SIDE or height * width > max_pixels:
        raise PictureError(
            f"a picture of {width} x {height} pixels is too large: at most {MAX_SIDE:,} a side "
            f"and {max_pixels:,} in all"
        )


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _tensor_like(reference: Any) -> Callable[[npt.NDArray[Any]], Any]:
    torch = sys.modules["torch"]
    return lambda values: torch.from_numpy(np.array(values)).to(reference.device)


def _unchanged(values: npt.NDArray[Any]) -> Any:
    return values


def _stack(values: list[Any]) -> Any:
    if _is_tensor(values[0]):
        return sys.modules["torch"].stack(values)
    return np.stack(values)
