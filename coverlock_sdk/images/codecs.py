"""Decoding and encoding picture files.

Metadata is kept, and rotated phone pictures are turned upright. Errors from Pillow become one
sentence. Files that two readers could understand differently are refused.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from PIL.Image import Image as PilImage

from coverlock_sdk.errors import DepthWarning, PictureError, needs
from coverlock_sdk.files import write_atomically
from coverlock_sdk.images.picture import MAX_PIXELS, MOST_PIXELS, require_size

WRITTEN: dict[str, dict[str, Any]] = {
    ".png": {"compress_level": 1},  # the usual 6 saves 2 % of a photo in four times the time
    ".tif": {"compression": "tiff_deflate"},
    ".tiff": {"compression": "tiff_deflate"},
    ".webp": {"lossless": True, "exact": True},
    ".jpg": {"quality": 95, "subsampling": 0},
    ".jpeg": {"quality": 95, "subsampling": 0},
    ".avif": {"quality": 90},
}
"""Suffixes of formats to save in, and Pillow's options; formats with a quality are lossy."""
LOSSLESS_SUFFIXES = tuple(suffix for suffix in WRITTEN if "quality" not in WRITTEN[suffix])
PICTURE_SUFFIXES = (*WRITTEN, ".gif", ".heic", ".heif")
"""Formats that can be read; HEIC, from phones, needs pillow-heif."""

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "AVIF", "HEIF")
"""Formats that Pillow may open. It knows dozens more, and one of them starts Ghostscript."""

_HELD_MODES = {
    **dict.fromkeys((".webp", ".avif"), ("RGB", "RGBA")),
    **dict.fromkeys((".jpg", ".jpeg"), ("L", "RGB")),
}
"""Modes that each format can hold; Pillow would quietly convert the others."""

ENOUGH = 2.5
"""Decode a picture to at least this many times the size that networks see.

Networks then see a difference of a fraction of an 8-bit step.
"""

KEPT_INFO = ("icc_profile", "exif", "dpi")
"""What to keep of a file besides its pixels."""


def load_image(
    source: Path | bytes, max_pixels: int = MAX_PIXELS, seen_at: tuple[int, int] | None = None
) -> PilImage:
    """Decode a picture file or its content, upright; refuse more than ``max_pixels``.

    If the picture is only needed resampled to height and width ``seen_at``, a large JPEG is decoded
    at a half, a quarter or an eighth of its size.
    """
    if isinstance(source, bytes):
        return _decode(io.BytesIO(source), "the picture", max_pixels, seen_at)
    try:
        if source.is_dir():
            raise PictureError(f"{source} is a folder: name a picture file")
        with source.open("rb") as file:
            return _decode(file, str(source), max_pixels, seen_at)
    except FileNotFoundError:
        raise PictureError(f"{source} does not exist") from None
    except OSError as error:
        raise PictureError(f"{source} cannot be read ({error.strerror or error})") from None
    except ValueError:  # no file name has a NUL
        raise PictureError(f"{str(source)!r} is not the name of a file") from None


def _decode(
    file: BinaryIO, name: str, max_pixels: int, seen_at: tuple[int, int] | None
) -> PilImage:
    if not file.read(1):
        raise PictureError(f"{name} is empty (0 bytes)")
    with explained(name):
        found = inspected(file)
        code_points = found.pop("code points", None)
        image = _open(file, name)
        image.info.update(found)
        if code_points and not image.info.get("icc_profile"):
            _require_srgb(*code_points)
        require_size(image.height, image.width, max_pixels)
        refuse_animation(image)
        _refuse_partial_gif(image)
        if seen_at is not None:
            _reduce(image, seen_at)
        colour = image.mode in ("RGB", "RGBA", "LA")
        deep = colour and any(";16" in str(tile) for tile in getattr(image, "tile", []))
        if deep and "transparency" in image.info:  # Pillow compares it with 8 bits
            raise PictureError(f"{name} has 16 bits and a transparent colour: use 8 bits")
        upright = upright_image(image)
    if deep:
        warnings.warn(
            f"{name} has 16 bits per channel and is read at 8, because Pillow holds no more: "
            "pass a NumPy uint16 array to keep its depth",
            DepthWarning,
            stacklevel=4,
        )
    return upright


def _reduce(image: PilImage, seen_at: tuple[int, int]) -> None:
    """Let a large JPEG be decoded at a fraction of its size, which skips most of the work."""
    if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
        needed = math.ceil(ENOUGH * max(seen_at))  # of either side: it may lie on its side
        image.draft(image.mode, (needed, needed))


def open_image(file: BinaryIO | Path) -> PilImage:
    """Pillow's ``Image.open``, limited to the ``FORMATS`` that this Pillow knows."""
    Image.init()
    return Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])


def _open(file: BinaryIO, name: str) -> PilImage:
    """Open an image; pillow-heif opens phone formats that Pillow does not know."""
    try:
        return open_image(file)
    except UnidentifiedImageError:
        file.seek(0)
        if file.read(11)[4:] not in (b"ftyphei", b"ftyphev", b"ftypmif", b"ftypmsf"):
            raise
    with needs(f"{name} is a HEIC picture and", "pillow-heif", "heic", PictureError):
        from pillow_heif import register_heif_opener
    register_heif_opener()
    file.seek(0)
    return open_image(file)


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn any error from Pillow into one sentence."""
    try:
        yield
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(
            f"{name} would decode to more than {MOST_PIXELS:,} pixels and was not opened"
        ) from None
    except UnidentifiedImageError:
        raise PictureError(
            f"{name} is not a picture, or not in a format that can be read "
            "(JPEG, PNG, WebP, AVIF, TIFF, GIF, HEIC): save it as PNG"
        ) from None
    except MemoryError:
        raise PictureError(f"{name} does not fit into memory") from None
    except Exception as error:
        raise PictureError(
            f"{name} is truncated or damaged ({_in_one_line(error)}): get the file again"
        ) from None


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def upright_image(image: PilImage) -> PilImage:
    """Turn ``image`` as its EXIF says, like browsers: they ignore XMP, and WebP files entirely.

    If its EXIF cannot be read, the image comes back unturned and without EXIF.
    """
    image.load()
    exif = Image.Exif()
    try:
        exif.load(image.info.get("exif", b""))  # getexif would also read XMP
        if exif.get(ExifTags.Base.Orientation, 1) == 1:
            return image
        if image.format != "WEBP":
            return ImageOps.exif_transpose(image)
        del exif[ExifTags.Base.Orientation]
    except MemoryError:
        raise
    except Exception:
        exif = Image.Exif()
    plain = image.copy()
    plain.info.pop("exif", None)
    if len(exif):
        plain.info["exif"] = exif.tobytes()
    return plain


def default_output(path: Path, suffix: str = ".png") -> Path:
    """The default place of a marked picture: a PNG beside the original."""
    return path.with_name(f"{path.stem}.marked{suffix}")


def save_image(image: PilImage, path: Path) -> Path:
    """Write ``image`` with its profile and metadata; the file appears whole or not at all."""
    write_file(path, encode_image(image, path.suffix))
    return path


def encode_image(image: PilImage, suffix: str, quality: int | None = None) -> bytes:
    """Encode ``image`` in the format that ``suffix`` names, losslessly if possible.

    ``quality`` is for lossy formats, from 1 to 100.
    """
    suffix = suffix.lower()
    require_format(suffix)
    options = dict(WRITTEN[suffix])
    if quality is not None:
        if suffix in LOSSLESS_SUFFIXES:
            raise PictureError(f"'{suffix}' is lossless and has no quality setting")
        options["quality"] = quality
    if image.mode not in _HELD_MODES.get(suffix, (image.mode,)):
        raise PictureError(
            f"a picture of mode {image.mode} cannot be saved as '{suffix}' without loss: use .png"
        )
    options |= {entry: image.info[entry] for entry in KEPT_INFO if image.info.get(entry)}
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
    """Refuse the suffix of a format that marked pictures cannot be written in."""
    if suffix.lower() not in WRITTEN:
        raise PictureError(
            f"pictures cannot be saved as '{suffix}': use one of {', '.join(WRITTEN)}"
        )


def write_file(path: Path, content: bytes) -> None:
    """Write an output file completely or not at all; an error says why in one sentence."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise PictureError(f"{path} cannot be written ({error.strerror or error})") from None


def refuse_animation(image: PilImage) -> None:
    """Refuse a file with several frames; counting them could take hours."""
    one_photo = image.format in ("MPO", "HEIF")  # to which phones add a preview
    if getattr(image, "is_animated", False) and not one_photo:
        raise PictureError(
            "an animation or a file of several pages is not one picture: mark its frames one by one"
        )


def _refuse_partial_gif(image: PilImage) -> None:
    """Refuse a GIF whose frame does not cover it, because viewers fill the rest differently."""
    tiles: Any = getattr(image, "tile", ())
    if image.format == "GIF" and [tuple(tile[1]) for tile in tiles] != [(0, 0, *image.size)]:
        raise PictureError("the frame of the GIF file does not fill it: save it again")


PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
GAIN_MAP = "gain_map"
"""Entry in an image's ``info``: its file holds another rendition, for HDR screens."""

_COLOUR_CHUNKS = (b"cICP", b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"tRNS", b"eXIf")
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
_RESERVED = (b"icc_profile", b"srgb", b"gamma", b"chromaticity", b"transparency", b"exif")
"""Comment keywords that Pillow lets replace the values of other chunks."""
_SRGB_CODE = bytes((1, 13, 0, 1))
_PROFILE = b"ICC_PROFILE\0"
_GAIN_MAPS = (b"hdrgm:", b"hdrgainmap", b"iso:ts:21496:-1")
_CROPPED = re.compile(rb"\0\0\0.clap", re.DOTALL)


def inspected(file: BinaryIO) -> dict[str, Any]:
    """What Pillow does not report about a file, as entries of ``info``; raises to refuse it."""
    file.seek(0)
    head = file.read(12)
    file.seek(0)
    found: dict[str, Any] = {}
    if head.startswith(PNG):
        found = _of_png(file)
    elif head.startswith(JPEG):
        found = _of_jpeg(file.read())
    elif head[4:8] == b"ftyp":
        found = _of_boxes(file.read())
    file.seek(0)
    return found


def _of_jpeg(content: bytes) -> dict[str, Any]:
    """Its profile, anywhere in the file; Pillow misses late ones and ones with surplus parts."""
    bodies = [body for marker, body in _segments(content) if marker == 0xE2]
    parts = sorted(body.removeprefix(_PROFILE) for body in bodies if body.startswith(_PROFILE))
    numbers = [part[:2] for part in parts]
    if numbers != [bytes((number + 1, len(parts))) for number in range(len(parts))]:
        raise PictureError(
            "the JPEG file says twice or in part how its colours are meant: save it again"
        )
    profile = b"".join(part[2:] for part in parts)
    return _gain_map(content) | ({"icc_profile": profile} if parts else {})


def _segments(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The marker and body of each segment before the pixels, found as browsers find them."""
    at = content.find(b"\xff", 2)
    while 0 <= at < len(content) - 1:
        marker = content[at + 1]
        if marker in (0xD9, 0xDA):
            return
        after = at + 1
        if marker not in (0x00, 0x01, 0xFF) and not 0xD0 <= marker <= 0xD8:  # those have no body
            [length] = struct.unpack_from(">H", content, at + 2)
            after = at + 2 + length
            yield marker, content[at + 4 : after]
        at = content.find(b"\xff", after)


def _of_png(file: BinaryIO) -> dict[str, Any]:
    file.seek(len(PNG))
    seen: dict[bytes, bytes] = {}
    pixels = False
    while len(header := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", header)
        pixels |= kind == b"IDAT"
        if kind not in _COLOUR_CHUNKS:
            keyword = file.read(min(length, 80)) if kind in _TEXT_CHUNKS else b""
            if keyword.partition(b"\0")[0] in _RESERVED:
                raise PictureError("a comment in the PNG file poses as its colours: save it again")
            file.seek(length + 4 - len(keyword), 1)
            continue
        if kind in seen or pixels:
            raise PictureError(
                f"the PNG file says twice or too late how it is meant to be shown "
                f"({kind.decode()}): save it again"
            )
        seen[kind] = file.read(length)
        file.seek(4, 1)
    if seen.get(b"sRGB", b"\0") not in (b"\0", b"\1", b"\2", b"\3"):  # browsers ignore others
        raise PictureError("the PNG file has a damaged sRGB chunk: save it again")
    if b"cICP" in seen and (b"iCCP" in seen or seen[b"cICP"] != _SRGB_CODE):
        raise PictureError("the PNG file has code points that are not sRGB's alone: convert it")
    return {}


def _require_srgb(primaries: int, transfer: int) -> None:
    """Refuse code points (ITU-T H.273) for colours that viewers do not treat as sRGB."""
    if primaries not in (1, 2) or transfer not in (1, 2, 6, 13, 14, 15):
        raise PictureError(
            f"the picture has other colours than those of sRGB (code points {primaries}, "
            f"{transfer}): convert it to sRGB first"
        )


def _of_boxes(content: bytes) -> dict[str, Any]:
    found = _gain_map(content)
    if b"tmap" in content[:64]:  # where a HEIF or AVIF file names its features
        found[GAIN_MAP] = True
    if content[8:12] in (b"avif", b"avis"):
        if _CROPPED.search(content):
            raise PictureError("some viewers show only a part of the AVIF file: save it again")
        if b"colr" not in content:
            raise PictureError("the AVIF file does not say how colours are meant: save it again")
    codes = {part[:4] for part in content.split(b"colrnclx")[1:]}
    if len(codes) > 1:
        raise PictureError("the file names several colour spaces: save it again")
    if codes:
        found["code points"] = struct.unpack(">HH", codes.pop())
    return found


def _gain_map(content: bytes) -> dict[str, Any]:
    return {GAIN_MAP: True} if any(mark in content for mark in _GAIN_MAPS) else {}
