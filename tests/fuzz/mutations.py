"""Ways to damage a good input. Everything follows from one random generator."""

import copy
import json
import random
from typing import Any

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)

ODD_NUMBERS: tuple[Any, ...] = (-1, 0, 2**31, 2**63, 10**30, 1e308, 0.1)
ODD_STRINGS: tuple[Any, ...] = ("", "\0", "\ud800", "../../etc/passwd", "a" * 10_000)
ODD_VALUES = (None, True, *ODD_NUMBERS, *ODD_STRINGS, [], {}, [[]], [None], {"": {}})

DEEP = (b"1" * 5000, b"[" * 2000, b'{"a":' * 2000)
ODD_TEXT = (b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b"\0", b"\xff\xfe", *DEEP)


def damaged_bytes(content: bytes, rng: random.Random) -> bytes:
    """``content`` with one to eight places changed, cut, doubled or moved."""
    result = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        _damage(result, rng)
    return bytes(result)


def _damage(result: bytearray, rng: random.Random) -> None:
    size = len(result)
    where = rng.randrange(size + 1) if rng.random() < 0.5 else rng.randrange(min(size, 200) + 1)
    match rng.randrange(7):
        case 0 if where < size:
            result[where] ^= 1 << rng.randrange(8)
        case 1 if where < size:
            result[where] = rng.randrange(256)
        case 2:
            width, order = rng.choice((1, 2, 4)), rng.choice(("big", "little"))
            number = rng.choice(NUMBERS) & (256**width - 1)
            result[where : where + width] = number.to_bytes(width, order)
        case 3:
            result[where:where] = rng.randbytes(rng.choice((1, 4, 64)))
        case 4:
            del result[where : where + rng.choice((1, 4, 64, 4096))]
        case 5:
            part = result[where : where + rng.choice((4, 64, 1024))]
            other = rng.randrange(size + 1)
            result[other:other] = part
        case _:
            del result[where:]


def damaged_json(document: Any, rng: random.Random) -> bytes:
    """A JSON document with odd values in some places, or odd text in it."""
    changed = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 3))):
        _replace_some(changed, rng)
    content = json.dumps(changed).encode()
    if rng.random() < 0.3:
        where = rng.randrange(len(content) + 1)
        content = content[:where] + rng.choice(ODD_TEXT) + content[where + rng.randrange(8) :]
    return damaged_bytes(content, rng) if rng.random() < 0.1 else content


def _replace_some(node: Any, rng: random.Random) -> None:
    """Change one entry somewhere below ``node``."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.7:
            node = inner
            continue
        if isinstance(node, dict) and rng.random() < 0.2:
            del node[key]
        else:
            node[key] = copy.deepcopy(rng.choice(ODD_VALUES))
        return
