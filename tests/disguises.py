"""Files that hold one picture and show another: what an attacker makes of a marked picture."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image

SRGB = ((0.4360, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7139))
"""Colorants of sRGB under the white of profiles."""


def encoded(picture: np.ndarray | Image.Image, kind: str = "PNG", **options: object) -> bytes:
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


def light(levels: np.ndarray) -> np.ndarray:
    """Levels of sRGB in [0, 1] as linear light."""
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def table_curve(values: np.ndarray) -> bytes:
    """A tone curve that is a table of linear light in [0, 1]."""
    table = np.round(np.asarray(values) * 65535).astype(">u2")
    return b"curv" + bytes(4) + struct.pack(">I", len(table)) + table.tobytes()


def power_curve(exponent: float) -> bytes:
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
    return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(65536 * value)) for value in values)


def curves_profile(curve: bytes) -> bytes:
    """The primaries of sRGB with another tone curve."""
    names = (b"rXYZ", b"gXYZ", b"bXYZ")
    colorants = {name: colorant(values) for name, values in zip(names, SRGB, strict=True)}
    return icc_profile(colorants | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve))


def grey_profile(curve: bytes) -> bytes:
    return icc_profile({b"kTRC": curve}, b"GRAY")


def cmyk_profile(first: bytes, second: bytes = b"") -> bytes:
    """Curves of ink for the perceptual intent, and for the colorimetric one."""
    tables = {b"A2B0": _ink_table(first)} | ({b"A2B1": _ink_table(second)} if second else {})
    return icc_profile(tables, b"CMYK", b"Lab ")


INK, NO_INK = bytes(range(256)), bytes(range(255, -1, -1))


def _ink_table(curve: bytes) -> bytes:
    """Grey by how much ink there is, as a table of two nodes per ink."""
    inks = np.stack(np.meshgrid(*[[0, 1]] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    lightness = 255 * (1 - (inks[:, :3].sum(axis=1) / 3 + inks[:, 3]).clip(0, 1))
    nodes = np.stack([lightness, np.full(16, 128), np.full(16, 128)], axis=1).round()
    matrix = struct.pack(">9i", *(np.eye(3, dtype=int) * 65536).reshape(-1))
    head = b"mft1" + bytes(4) + bytes((4, 3, 2, 0)) + matrix
    return head + curve * 4 + nodes.astype(np.uint8).tobytes() + bytes(range(256)) * 3


def png(pixels: np.ndarray, *chunks: bytes, late: bytes = b"", depth: int = 8) -> bytes:
    """A PNG file with further chunks before and after its pixels."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, depth, {3: 2, 4: 6}[channels], 0, 0, 0)
    rows = pixels.astype(">u2") if depth == 16 else pixels.astype(np.uint8)
    body = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows)))
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + b"".join(chunks) + body + late + chunk(b"IEND", b"")


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def gamma_chunk(gamma: float) -> bytes:
    return chunk(b"gAMA", struct.pack(">I", round(gamma * 100_000)))


def profile_chunk(profile: bytes) -> bytes:
    return chunk(b"iCCP", b"profile\0\0" + zlib.compress(profile))


# Each takes a marked picture and another one, and gives a file that a viewer shows as the other.

LOW_BITS = curves_profile(table_curve(light(np.arange(256) % 16 / 15)))
"""Shows the low four bits of a picture."""


def in_low_bits(marked: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``marked``, each level moved to the nearest one whose low four bits are ``other``."""
    wanted = other.astype(int) // 16
    moved = (marked.astype(int) - wanted + 8) // 16 * 16 + wanted
    moved = np.where(moved > 255, moved - 16, np.where(moved < 0, moved + 16, moved))
    return moved.astype(np.uint8)


def by_profile(marked: np.ndarray, other: np.ndarray) -> bytes:
    return encoded(in_low_bits(marked, other), icc_profile=LOW_BITS)


def by_profile_of_jpeg(marked: np.ndarray, other: np.ndarray) -> bytes:
    pixels = in_low_bits(marked, other)
    return encoded(pixels, "JPEG", quality=100, subsampling=0, icc_profile=LOW_BITS)


def by_profile_of_webp(marked: np.ndarray, other: np.ndarray) -> bytes:
    return encoded(in_low_bits(marked, other), "WEBP", lossless=True, icc_profile=LOW_BITS)


def by_second_profile(marked: np.ndarray, other: np.ndarray) -> bytes:
    """Browsers take the first profile, Pillow the last."""
    harmless = profile_chunk(curves_profile(table_curve(light(np.arange(256) / 255))))
    return png(in_low_bits(marked, other), profile_chunk(LOW_BITS), harmless)


def by_table(marked: np.ndarray, other: np.ndarray) -> bytes:
    """A monotone curve that shows bright levels only: one pixel in two holds each picture."""
    levels = np.arange(256) / 255
    curve = table_curve(levels**50)
    return encoded(_interlaced(marked, other, 50 / 2.2), icc_profile=curves_profile(curve))


def by_gamma(marked: np.ndarray, other: np.ndarray) -> bytes:
    return png(_interlaced(marked, other, 50 / 2.2), gamma_chunk(1 / 50))


def _interlaced(marked: np.ndarray, other: np.ndarray, power: float) -> np.ndarray:
    """Twice as large: ``marked`` where the power shows black, ``other`` where it shows levels."""
    large = [np.repeat(np.repeat(p / 255, 2, axis=0), 2, axis=1) for p in (marked, other)]
    rows, columns = np.indices(large[0].shape[:2])
    whose = ((rows + columns) % 2 == 0)[..., None]
    bright = (0.01 + 0.99 * large[1]) ** (1 / power)
    return np.round(np.where(whose, 0.8 * large[0], bright) * 255).astype(np.uint8)


def by_alpha(marked: np.ndarray, other: np.ndarray) -> bytes:
    """``marked`` over white, ``other`` over black."""
    over_white, over_black = 0.5 + marked / 510, other / 510
    opacity = 1 - (over_white.mean(axis=2) - over_black.mean(axis=2))[..., None]
    opacity = opacity.clip(0.01, 1)
    colour = ((over_white - (1 - opacity)) / opacity).clip(0, 1)
    return encoded(np.round(np.dstack([colour, opacity]) * 255).astype(np.uint8))


def by_animation(marked: np.ndarray, other: np.ndarray) -> bytes:
    """A PNG whose still picture is ``marked`` and whose only frame is ``other``."""
    height, width = other.shape[:2]
    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, width, height, 0, 0, 1, 1, 0, 0))
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in other))
    moving = frame + chunk(b"fdAT", struct.pack(">I", 1) + rows)
    return png(marked, chunk(b"acTL", struct.pack(">II", 1, 0)), late=moving)


def by_bmp_profile(marked: np.ndarray, other: np.ndarray) -> bytes:
    """A BMP of version 5, whose profile browsers apply."""
    height, width = marked.shape[:2]
    pixels = encoded(in_low_bits(marked, other), "BMP")[54:]
    head = struct.pack("<IiiHHIIiiII", 124, width, height, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    head += bytes(16) + b"DEBM" + bytes(48) + struct.pack("<4I", 4, 124 + len(pixels), 0, 0)
    head = head[:116] + struct.pack("<I", len(LOW_BITS)) + head[120:]
    size = 14 + len(head) + len(pixels) + len(LOW_BITS)
    return b"BM" + struct.pack("<IHHI", size, 0, 0, 138) + head + pixels + LOW_BITS


DISGUISES: dict[str, Callable[[np.ndarray, np.ndarray], bytes]] = {
    "a profile": by_profile,
    "a profile in a JPEG": by_profile_of_jpeg,
    "a profile in a WebP": by_profile_of_webp,
    "a profile in a BMP": by_bmp_profile,
    "one of two profiles": by_second_profile,
    "a steep profile": by_table,
    "gamma": by_gamma,
    "alpha": by_alpha,
    "an animation": by_animation,
}
