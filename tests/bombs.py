"""Picture files that cost a reader more than they look like."""

import struct
import zlib

from experiments.disguises import chunk


def bomb() -> bytes:
    """A PNG of a few bytes that says it has billions of pixels."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(bytes(1000))))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def chained_pages(count: int) -> bytes:
    """A TIFF of many pages that share their pixels: 78 bytes a page."""
    entries = [(256, 3, 1, 64), (257, 3, 1, 64), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8)]
    fields = b"".join(struct.pack("<HHII", *entry) for entry in [*entries, (279, 4, 1, 4096)])
    size, start = 2 + len(fields) + 4, 8 + 4096
    pages = [
        struct.pack("<H", 6) + fields + struct.pack("<I", start + (page + 1) * size)
        for page in range(count)
    ]
    last = struct.pack("<H", 6) + fields + bytes(4)
    return b"II*\0" + struct.pack("<I", start) + bytes(4096) + b"".join(pages) + last
