"""Picture files: decoding them, and encoding them with what a photographer cares about.

Colour profile and metadata are kept, and turned phone pictures are set upright. Whatever Pillow
raises becomes one sentence.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from coverlock_sdk.errors import DepthWarning, PictureError, needs
from coverlock_sdk.files import write_atomically
from coverlock_sdk.images.picture import MAX_PIXELS, MOST_PIXELS, require_size

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

LOSSLESS_SUFFIXES = (".png", ".tif", ".tiff", ".webp", ".bmp")
LOSSY_SUFFIXES = (".jpg", ".jpeg", ".avif")
HEIF_SUFFIXES = (".heic", ".heif")
"""What phones save; such files are read where pillow-heif is installed, and never written."""
PICTURE_SUFFIXES = (*LOSSLESS_SUFFIXES, *LOSSY_SUFFIXES, ".gif", *HEIF_SUFFIXES)

HEAD_BYTES = 16
"""How many bytes of a file are enough to tell its format."""
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "AVIF", "HEIF")
"""What Pillow may open. It knows dozens more, and one of them starts Ghostscript."""
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")

_HELD_MODES = {
    ".webp": ("RGB", "RGBA"),
    ".avif": ("RGB", "RGBA"),
    ".bmp": ("L", "RGB"),
    ".jpg": ("L", "RGB"),
    ".jpeg": ("L", "RGB"),
}
"""What formats hold; Pillow would quietly convert the rest."""

PNG_LEVEL = 1
"""How hard PNG files are compressed; the usual 6 saves 2 % of a photo in four times the time."""

ENOUGH = 2.5
"""How many times the size that networks see a picture is decoded at, at least.

Measured by ``bench large-pictures``: what networks see then differs by a fraction of an 8-bit step.
"""

KEPT_INFO = ("icc_profile", "exif", "dpi")
"""What is kept of a file besides its pixels."""


def load_image(
    path: Path, max_pixels: int = MAX_PIXELS, seen_at: tuple[int, int] | None = None
) -> PilImage:
    """Decode a picture file, upright, or say in one sentence why that is impossible.

    ``seen_at`` is the height and width to which the picture will be resampled, if that is all it
    is needed for: a large JPEG is then decoded at a half, a quarter or an eighth of its size.
    """
    try:
        if path.is_dir():
            raise PictureError(f"{path} is a folder: name a picture file")
        with path.open("rb") as file:
            return _decode(file, path.stat().st_size, str(path), max_pixels, seen_at)
    except FileNotFoundError:
        raise PictureError(f"{path} does not exist") from None
    except PermissionError:
        raise PictureError(f"{path} cannot be read: permission denied") from None
    except OSError as error:
        raise PictureError(f"{path} cannot be read ({error.strerror or error})") from None
    except ValueError:  # a NUL, which no name of a file has
        raise PictureError(f"{str(path)!r} is not the name of a file") from None


def begins_like_a_picture(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a picture."""
    in_box = head[4:8] == b"ftyp" and head[8:12] in (*_HEIF_BRANDS, b"avif", b"avis")
    in_riff = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return head.startswith(_BEGINNINGS) or in_box or in_riff


def decode_image(
    content: bytes, max_pixels: int = MAX_PIXELS, seen_at: tuple[int, int] | None = None
) -> PilImage:
    """Decode the content of a picture file, like ``load_image``; nothing above ``max_pixels``."""
    return _decode(io.BytesIO(content), len(content), "the picture", max_pixels, seen_at)


def _decode(
    file: BinaryIO, size: int, name: str, max_pixels: int, seen_at: tuple[int, int] | None
) -> PilImage:
    if size == 0:
        raise PictureError(f"{name} is empty (0 bytes)")
    with explained(name):
        image = _open(file, name)
        require_size(image.height, image.width, max_pixels)
        refuse_animation(image)
        if seen_at is not None:
            _reduce(image, seen_at)
        colour = image.mode in ("RGB", "RGBA", "LA")
        deep = colour and any(";16" in str(tile) for tile in getattr(image, "tile", []))
        upright = upright_image(image)
    if deep:
        warnings.warn(
            f"{name} has 16 bits per channel and is read at 8, which is all Pillow holds: "
            "pass a NumPy uint16 array to keep its depth",
            DepthWarning,
            stacklevel=4,
        )
    return upright


def _reduce(image: PilImage, seen_at: tuple[int, int]) -> None:
    """Let a large JPEG be decoded at a fraction of its size, which skips most of the work."""
    if image.format not in ("JPEG", "MPO") or image.mode not in ("L", "RGB"):
        return
    needed = ENOUGH * max(seen_at)  # of either side, because it may lie on its side
    for scale in (8, 4, 2):
        if min(image.size) >= scale * needed:
            image.draft(image.mode, (image.width // scale, image.height // scale))
            return


def open_image(file: BinaryIO | Path) -> PilImage:
    """Pillow's ``Image.open``, for those of our ``FORMATS`` that this Pillow knows."""
    from PIL import Image

    Image.init()
    return Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])


def _open(file: BinaryIO, name: str) -> PilImage:
    """Open an image; a format of phones that Pillow does not know is left to pillow-heif."""
    from PIL import UnidentifiedImageError

    try:
        return open_image(file)
    except UnidentifiedImageError:
        file.seek(0)
        head = file.read(HEAD_BYTES)
        if head[4:8] != b"ftyp" or head[8:12] not in _HEIF_BRANDS:
            raise
    with needs(f"{name} is a HEIC picture and", "pillow-heif", "heic", PictureError):
        from pillow_heif import register_heif_opener
    register_heif_opener()
    file.seek(0)
    return open_image(file)


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn whatever Pillow raises into one sentence: each of its decoders has its own errors."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(
            f"{name} would decode to more than {MOST_PIXELS:,} pixels and was not opened"
        ) from None
    except UnidentifiedImageError:
        raise PictureError(f"{name} is not a picture, or its format is unknown") from None
    except MemoryError:
        raise PictureError(f"{name} does not fit into memory") from None
    except Exception as error:
        raise PictureError(
            f"{name} is truncated or damaged ({_in_one_line(error)}): get the file again"
        ) from None


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def upright_image(image: PilImage) -> PilImage:
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


def default_output(path: Path, suffix: str = ".png") -> Path:
    """Where a marked picture goes when nothing was said: a PNG beside the original."""
    return path.with_name(f"{path.stem}.marked{suffix}")


def save_image(image: PilImage, path: Path) -> Path:
    """Write ``image`` with its profile and metadata; the file appears whole or not at all."""
    write_file(path, encode_image(image, path.suffix))
    return path


def encode_image(image: PilImage, suffix: str, quality: int | None = None) -> bytes:
    """The bytes of ``image`` in the format that ``suffix`` names: lossless where it can be.

    ``quality`` is for lossy formats, from 1 to 100.
    """
    from PIL import Image

    suffix = suffix.lower()
    require_format(suffix)
    if quality is not None and suffix not in LOSSY_SUFFIXES:
        raise PictureError(f"'{suffix}' is written without loss and has no quality to choose")
    if suffix in _HELD_MODES and image.mode not in _HELD_MODES[suffix]:
        raise PictureError(
            f"a picture of mode {image.mode} cannot be saved as '{suffix}' without loss: use .png"
        )
    options: dict[str, Any] = {}
    if suffix in (".jpg", ".jpeg"):
        options = {"quality": quality or 95, "subsampling": 0}
    elif suffix == ".webp":
        options = {"lossless": True, "exact": True}
    elif suffix in (".tif", ".tiff"):
        options = {"compression": "tiff_deflate"}
    elif suffix == ".avif":
        options = {"quality": quality or 90}
    elif suffix == ".png":
        options = {"compress_level": PNG_LEVEL}
    for entry in KEPT_INFO:
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


def require_format(suffix: str) -> None:
    """Refuse a suffix of a file format that marked pictures are not written in."""
    known = (*LOSSLESS_SUFFIXES, *LOSSY_SUFFIXES)
    if suffix.lower() not in known:
        raise PictureError(f"pictures cannot be saved as '{suffix}': use one of {', '.join(known)}")


def write_file(path: Path, content: bytes) -> None:
    """Write an output file whole or not at all, or say in one sentence why that is impossible."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise PictureError(f"{path} cannot be written ({error.strerror or error})") from None


def refuse_animation(image: PilImage) -> None:
    """Refuse a file of several frames, which is not one picture.

    Pillow looks for a second frame only: counting them takes hours on a file made for that.
    """
    one_photo = image.format in ("MPO", "HEIF")  # to which phones add a preview
    if getattr(image, "is_animated", False) and not one_photo:
        raise PictureError(
            "an animation or a file of several pages is not one picture: mark its frames one by one"
        )
