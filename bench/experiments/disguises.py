"""Files that hold one picture and show another: what an attacker makes of a marked picture.

Chromium shows each as the other picture (that of ``by_alpha`` over black), and Pillow's pixels are
those of the marked one.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from coverlock_bench.photos import Picture8
from coverlock_sdk.arrays import AnyArray

SRGB = ((0.4360, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7139))
"""Colorants of sRGB under the white of profiles."""
DISPLAY_P3 = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
"""The same of Display P3."""


def encoded(picture: Picture8 | Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """A picture file."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


def light(levels: AnyArray) -> AnyArray:
    """Levels of sRGB in [0, 1] as linear light."""
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def table_curve(values: AnyArray) -> bytes:
    """A tone curve that is a table of linear light in [0, 1]."""
    table = np.round(np.asarray(values) * 65535).astype(">u2")
    return b"curv" + bytes(4) + struct.pack(">I", len(table)) + table.tobytes()


def power_curve(exponent: float) -> bytes:
    """A tone curve that is a power."""
    return b"curv" + bytes(4) + struct.pack(">IH", 1, round(exponent * 256))


def icc_profile(tags: dict[bytes, bytes], space: bytes = b"RGB ", pcs: bytes = b"XYZ ") -> bytes:
    """A profile of version 2, byte by byte."""
    tags = {b"wtpt": colorant((0.9642, 1, 0.8249)), **tags}
    start, table, body = 132 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        table += struct.pack(">4sII", name, start + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    header = struct.pack(">I4xI", start + len(body), 0x02100000) + b"mntr" + space + pcs
    header += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(28)
    header += colorant((0.9642, 1, 0.8249))[8:]
    return header.ljust(128, b"\0") + table + body


def colorant(values: tuple[float, ...]) -> bytes:
    """Three numbers as profiles hold them."""
    return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(65536 * value)) for value in values)


def curves_profile(curve: bytes, colorants: tuple[tuple[float, ...], ...] = SRGB) -> bytes:
    """A tone curve on the primaries of sRGB, or on others."""
    names = (b"rXYZ", b"gXYZ", b"bXYZ")
    primaries = {name: colorant(values) for name, values in zip(names, colorants, strict=True)}
    return icc_profile(primaries | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve))


def grey_profile(curve: bytes) -> bytes:
    """A profile of grey pictures."""
    return icc_profile({b"kTRC": curve}, b"GRAY")


def png(pixels: AnyArray, *chunks: bytes, late: bytes = b"", depth: int = 8) -> bytes:
    """A PNG file with further chunks before and after its pixels."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, depth, {3: 2, 4: 6}[channels], 0, 0, 0)
    rows = pixels.astype(">u2") if depth == 16 else pixels.astype(np.uint8)
    body = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows)))
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + b"".join(chunks) + body + late + chunk(b"IEND", b"")


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def gamma_chunk(gamma: float) -> bytes:
    """A chunk that says the gamma of a PNG file, as 1 / 2.2 for the usual one."""
    return chunk(b"gAMA", struct.pack(">I", round(gamma * 100_000)))


def profile_chunk(profile: bytes) -> bytes:
    """A chunk that holds the profile of a PNG file."""
    return chunk(b"iCCP", b"profile\0\0" + zlib.compress(profile))


# Each takes a marked picture and another one, and gives a file that a viewer shows as the other.

LOW_BITS = curves_profile(table_curve(light(np.arange(256) % 16 / 15)))
"""Shows the low four bits of a picture."""


def in_low_bits(marked: Picture8, other: Picture8) -> Picture8:
    """``marked``, each level moved to the nearest one whose low four bits are ``other``."""
    wanted = other.astype(int) // 16
    moved = (marked.astype(int) - wanted + 8) // 16 * 16 + wanted
    moved = np.where(moved > 255, moved - 16, np.where(moved < 0, moved + 16, moved))
    return moved.astype(np.uint8)


def by_profile(marked: Picture8, other: Picture8) -> bytes:
    """A PNG whose profile shows the low bits."""
    return encoded(in_low_bits(marked, other), icc_profile=LOW_BITS)


def by_profile_of_jpeg(marked: Picture8, other: Picture8) -> bytes:
    """The same in a JPEG."""
    pixels = in_low_bits(marked, other)
    return encoded(pixels, "JPEG", quality=100, subsampling=0, icc_profile=LOW_BITS)


def by_profile_of_webp(marked: Picture8, other: Picture8) -> bytes:
    """The same in a WebP."""
    return encoded(in_low_bits(marked, other), "WEBP", lossless=True, icc_profile=LOW_BITS)


def by_second_profile(marked: Picture8, other: Picture8) -> bytes:
    """Browsers take the first profile, Pillow the last."""
    harmless = profile_chunk(curves_profile(table_curve(light(np.arange(256) / 255))))
    return png(in_low_bits(marked, other), profile_chunk(LOW_BITS), harmless)


def by_table(marked: Picture8, other: Picture8) -> bytes:
    """A monotone curve that shows bright levels only: one pixel in two holds each picture."""
    levels = np.arange(256) / 255
    curve = table_curve(levels**50)
    return encoded(_interlaced(marked, other, 50 / 2.2), icc_profile=curves_profile(curve))


def by_gamma(marked: Picture8, other: Picture8) -> bytes:
    """A gamma that shows bright levels only."""
    return png(_interlaced(marked, other, 50 / 2.2), gamma_chunk(1 / 50))


def _interlaced(marked: Picture8, other: Picture8, power: float) -> Picture8:
    """Twice as large: ``marked`` where the power shows black, ``other`` where it shows levels."""
    large = [np.repeat(np.repeat(p / 255, 2, axis=0), 2, axis=1) for p in (marked, other)]
    rows, columns = np.indices(large[0].shape[:2])
    whose = ((rows + columns) % 2 == 0)[..., None]
    bright = (0.01 + 0.99 * large[1]) ** (1 / power)
    return np.round(np.where(whose, 0.8 * large[0], bright) * 255).astype(np.uint8)


def by_alpha(marked: Picture8, other: Picture8) -> bytes:
    """``marked`` over white, ``other`` over black."""
    over_white, over_black = 0.5 + marked / 510, other / 510
    opacity = 1 - (over_white.mean(axis=2) - over_black.mean(axis=2))[..., None]
    opacity = opacity.clip(0.01, 1)
    colour = ((over_white - (1 - opacity)) / opacity).clip(0, 1)
    return encoded(np.round(np.dstack([colour, opacity]) * 255).astype(np.uint8))


def by_animation(marked: Picture8, other: Picture8) -> bytes:
    """A PNG whose still picture is ``marked`` and whose only frame is ``other``."""
    height, width = other.shape[:2]
    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, width, height, 0, 0, 1, 1, 0, 0))
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in other))
    moving = frame + chunk(b"fdAT", struct.pack(">I", 1) + rows)
    return png(marked, chunk(b"acTL", struct.pack(">II", 1, 0)), late=moving)


def by_bmp_profile(marked: Picture8, other: Picture8) -> bytes:
    """A BMP of version 5, whose profile browsers apply."""
    height, width = marked.shape[:2]
    pixels = encoded(in_low_bits(marked, other), "BMP")[54:]
    head = struct.pack("<IiiHHIIiiII", 124, width, height, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    head += bytes(16) + b"DEBM" + bytes(48) + struct.pack("<4I", 4, 124 + len(pixels), 0, 0)
    head = head[:116] + struct.pack("<I", len(LOW_BITS)) + head[120:]
    size = 14 + len(head) + len(pixels) + len(LOW_BITS)
    return b"BM" + struct.pack("<IHHI", size, 0, 0, 138) + head + pixels + LOW_BITS


def by_profile_with_a_part_too_many(marked: Picture8, other: Picture8) -> bytes:
    """Pillow ignores a profile then, and browsers do not."""
    return _with_segments(in_low_bits(marked, other), _profile_segment(LOW_BITS) + _EXTRA_PART)


def by_late_profile(marked: Picture8, other: Picture8) -> bytes:
    """Pillow stops looking for a profile before the tables of a JPEG file, and browsers do not."""
    content = encoded(in_low_bits(marked, other), "JPEG", quality=100, subsampling=0)
    pixels = content.index(b"\xff\xda")
    return content[:pixels] + _profile_segment(LOW_BITS) + content[pixels:]


def by_gamma_under_damaged_srgb(marked: Picture8, other: Picture8) -> bytes:
    """Browsers ignore an sRGB chunk that cannot be, and follow the gamma."""
    return png(_interlaced(marked, other, 50 / 2.2), chunk(b"sRGB", b"\xff"), gamma_chunk(1 / 50))


def by_profile_under_open_code_points(marked: Picture8, other: Picture8) -> bytes:
    """Browsers ignore code points for "unspecified", and follow the profile."""
    code = chunk(b"cICP", bytes((2, 2, 0, 1)))
    return png(in_low_bits(marked, other), profile_chunk(LOW_BITS), code)


def by_profile_behind_a_comment(marked: Picture8, other: Picture8) -> bytes:
    """Pillow files comments and profiles under one name, and keeps what comes last."""
    comment = chunk(b"tEXt", b"icc_profile\0")
    return png(in_low_bits(marked, other), profile_chunk(LOW_BITS), comment)


def by_gamma_behind_a_comment(marked: Picture8, other: Picture8) -> bytes:
    """For Pillow, the comment stands for an sRGB chunk, which would overrule the gamma."""
    chunks = gamma_chunk(1 / 50), chunk(b"tEXt", b"srgb\0")
    return png(_interlaced(marked, other, 50 / 2.2), *chunks)


def by_alpha_of_bmp(marked: Picture8, other: Picture8) -> bytes:
    """Dark and opaque for Pillow; bright and transparent, over white, for browsers."""
    dark, bright = marked / 510, 0.5 + other / 510
    opacity = (1 - bright.mean(axis=2)) / (1 - dark.mean(axis=2))
    pixels = np.round(np.dstack([dark[..., ::-1], opacity]) * 255).astype(np.uint8)[::-1].tobytes()
    height, width = marked.shape[:2]
    masks = struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    head = struct.pack("<IiiHHIIiiII", 108, width, height, 1, 32, 0, len(pixels), 0, 0, 0, 0)
    head = (head + masks).ljust(108, b"\0")
    return b"BM" + struct.pack("<IHHI", 122 + len(pixels), 0, 0, 122) + head + pixels


def by_crop_of_avif(marked: Picture8, other: Picture8) -> bytes:
    """Browsers show a corner only, where the other picture is."""
    height, width = (side // 5 for side in marked.shape[:2])
    pixels = marked.copy()
    pixels[:height, :width] = np.asarray(Image.fromarray(other).resize((width, height)))
    content = encoded(pixels, "AVIF", quality=95, subsampling="4:4:4")
    offsets = (width - marked.shape[1], height - marked.shape[0])
    values = (width, 1, height, 1, offsets[0], 2, offsets[1], 2)
    return _with_property(content, _box(b"clap", struct.pack(">IIIIiIiI", *values)))


_EXTRA_PART = b"\xff\xe2" + struct.pack(">H", 36) + b"ICC_PROFILE\0\2\2" + bytes(20)


def _profile_segment(profile: bytes) -> bytes:
    body = b"ICC_PROFILE\0\1\1" + profile
    return b"\xff\xe2" + struct.pack(">H", len(body) + 2) + body


def _with_segments(pixels: AnyArray, segments: bytes) -> bytes:
    content = encoded(pixels, "JPEG", quality=100, subsampling=0)
    return content[:2] + segments + content[2:]


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body) + 8) + kind + body


def _with_property(content: bytes, added: bytes) -> bytes:
    """An AVIF file of one item, as Pillow writes it, with a further property of that item."""
    pixels = content.index(b"mdat") + 4
    start, size = _place(content, b"ipma")
    associations = content[start + 8 : start + size]
    count = associations[10]
    order = bytes([*associations[:10], count + 1, *associations[11:], 0x80 | (count + 1)])
    content = content[:start] + added + _box(b"ipma", order) + content[start + size :]
    grown = len(added) + 1
    for kind, more in ((b"ipco", len(added)), (b"iprp", grown), (b"meta", grown)):
        start, size = _place(content, kind)
        content = content[:start] + struct.pack(">I", size + more) + content[start + 4 :]
    where = content.index(struct.pack(">I", pixels), content.index(b"iloc"))
    return content[:where] + struct.pack(">I", pixels + grown) + content[where + 4 :]


def _place(content: bytes, kind: bytes) -> tuple[int, int]:
    """Where a box begins, and its size."""
    start = content.index(kind) - 4
    return start, struct.unpack_from(">I", content, start)[0]


Disguise = Callable[[Picture8, Picture8], bytes]
DISGUISES: dict[str, Disguise] = {
    "a profile": by_profile,
    "a profile in a JPEG": by_profile_of_jpeg,
    "a profile in a WebP": by_profile_of_webp,
    "a profile in a BMP": by_bmp_profile,
    "one of two profiles": by_second_profile,
    "a profile with a part too many": by_profile_with_a_part_too_many,
    "a late profile": by_late_profile,
    "a profile under open code points": by_profile_under_open_code_points,
    "a profile behind a comment": by_profile_behind_a_comment,
    "a steep profile": by_table,
    "gamma": by_gamma,
    "gamma under damaged sRGB": by_gamma_under_damaged_srgb,
    "gamma behind a comment": by_gamma_behind_a_comment,
    "alpha": by_alpha,
    "alpha of a BMP": by_alpha_of_bmp,
    "the crop of an AVIF": by_crop_of_avif,
    "an animation": by_animation,
}
