"""Picture files: decoding them, and encoding them with what a photographer cares about.

Metadata are kept, and turned phone pictures are set upright. Whatever Pillow raises becomes one
sentence. A file that two readers may understand differently is refused.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
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
        extra = inspected(file)
        image = _open(file, name)
        if "nclx" in extra and not image.info.get("icc_profile"):
            extra["cicp"] = extra["nclx"]
        image.info.update(extra)
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
    """``image`` turned as its EXIF says and browsers do: neither as XMP says, nor in WebP files.

    Where its EXIF cannot be read, the image comes back as it is and without it.
    """
    from PIL import ExifTags, Image, ImageOps

    image.load()
    exif = Image.Exif()
    try:
        exif.load(image.info.get("exif", b""))  # getexif would ask the XMP too
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


def _refuse_partial_gif(image: PilImage) -> None:
    """Refuse a GIF whose frame leaves some of it open, which viewers fill as they like."""
    tiles: Any = getattr(image, "tile", ())
    if image.format == "GIF" and [tuple(tile[1]) for tile in tiles] != [(0, 0, *image.size)]:
        raise PictureError("the frame of the GIF file does not fill it: save it again")


PNG, JPEG, BMP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM"
GAIN_MAP = "gain_map"
"""Entry in an image's ``info``: its file holds another rendition, for HDR screens."""

_COLOUR_CHUNKS = (b"cICP", b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"tRNS", b"eXIf")
_SRGB = (b"\0", b"\1", b"\2", b"\3")
"""What an sRGB chunk may hold; browsers ignore other ones, and Pillow does not."""
_PROFILE = b"ICC_PROFILE\0"
_GAIN_MAPS = (b"hdrgm:", b"hdrgainmap", b"iso:ts:21496:-1")
_BRANDS = 64  # bytes at the beginning of a HEIF or AVIF file that name its features
_CROPPED = re.compile(rb"\0\0\0.clap", re.DOTALL)


def inspected(file: BinaryIO) -> dict[str, Any]:
    """What an image's ``info`` should say and Pillow does not; ``file`` is left at its beginning.

    ``cicp`` are code points for primaries and transfer curve, which PNG prefers to a profile; in
    AVIF and HEIF files they are ``nclx``, and a profile is preferred.
    """
    head = file.read(74)
    found: dict[str, Any] = {}
    if head.startswith(PNG):
        found = _of_png(file)
    elif head.startswith(BMP):
        _require_plain_bmp(head)
    elif head.startswith(JPEG):
        file.seek(0)
        found = _of_jpeg(file.read())
    elif head[4:8] == b"ftyp":
        file.seek(0)
        found = _of_boxes(file.read())
    file.seek(0)
    return found


def _require_plain_bmp(head: bytes) -> None:
    """Refuse what browsers show of a BMP file and Pillow does not: a profile, hidden alpha."""
    size, bits, compression = struct.unpack_from("<I10xHI", head, 14)
    if size >= 124 and head[70:74] in (b"DEBM", b"KNIL"):
        raise PictureError("a BMP file with a colour profile is not read: save it as PNG")
    has_alpha = size >= 56 and head[66:70] != bytes(4)
    if has_alpha and (bits, compression) in ((16, 0), (16, 3), (32, 0)):
        raise PictureError("a BMP file with this kind of transparency is not read: save it as PNG")


def _of_jpeg(content: bytes) -> dict[str, Any]:
    """Its profile, wherever it is; Pillow overlooks one that comes late or with a part too many."""
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
            file.seek(length + 4, 1)
            continue
        if kind in seen or pixels:
            raise PictureError(
                f"the PNG file says twice or too late how it is meant to be shown "
                f"({kind.decode()}): save it again"
            )
        seen[kind] = file.read(length)
        file.seek(4, 1)
    if seen.get(b"sRGB", b"\0") not in _SRGB:
        raise PictureError("the PNG file has a damaged sRGB chunk: save it again")
    code = seen.get(b"cICP", b"")
    if not code:
        return {}
    if len(code) != 4 or code[2:] != b"\0\1":
        raise PictureError("the PNG file has code points that do not fit PNG: save it again")
    if code[0] == 2 or code[1] in (1, 2, 6, 14, 15):
        raise PictureError("viewers differ on the code points of the PNG file: save it again")
    return {"cicp": (code[0], code[1])}


def _of_boxes(content: bytes) -> dict[str, Any]:
    found = _gain_map(content)
    if b"tmap" in content[:_BRANDS]:
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
        found["nclx"] = struct.unpack(">HH", codes.pop())
    return found


def _gain_map(content: bytes) -> dict[str, Any]:
    return {GAIN_MAP: True} if any(mark in content for mark in _GAIN_MAPS) else {}
