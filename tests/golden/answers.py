"""The golden answers: what the SDK says of a fixed set of marked pictures.

A change that is not meant to change any answer must leave them as they are. Where a change is
meant to, write them anew and let the difference be read with it::

    python tests/golden/answers.py
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from coverlock_sdk import CoverLockError, Key, codeword, wrap
from coverlock_sdk.errors import ExposedKeyWarning, WeakMarkWarning
from coverlock_sdk.testing import natural_pictures

FILE = Path(__file__).with_name("answers.json")

SHIPPED = ("mbrs", "cin", "hidden", "rivagan-trained")
FETCHED = ("steganogan", "rivagan")
HASHES = ("nano", "dct")
RULES = ("hard", "soft")
KEYS = {"keyless": None, "keyed": Key(bytes(range(32)), id="golden", created="", scheme=1)}
RIGHT, WRONG = "order-4711", "order-4712"


def pictures() -> dict[str, Image.Image]:
    """One picture of each kind that takes its own way through the SDK."""
    small, large, grey, alpha, jpeg = (
        natural_pictures(1, size, seed=seed)[0]
        for seed, size in enumerate([(256, 256), (400, 520), (300, 280), (280, 320), (360, 300)])
    )
    clear = np.clip(np.add.outer(np.arange(280), np.arange(320)), 60, 255).astype(np.uint8)
    return {
        "native": Image.fromarray(small),
        "large": Image.fromarray(large),
        "grey": Image.fromarray(grey).convert("L"),
        "alpha": Image.fromarray(np.dstack([alpha, clear])),
        "jpeg": _jpeg(Image.fromarray(jpeg)),
    }


def answers(watermark: str) -> Iterator[dict[str, Any]]:
    """Every answer about pictures marked by ``watermark``, in a fixed order."""
    for image_hash, (key_name, key) in product(HASHES, KEYS.items()):
        # Not hardened: hardening changes what is marked, and these are answers of verification.
        setting = {"hash": image_hash, "key": key, "harden": False}
        locks = {rule: wrap(watermark, rule=rule, **setting) for rule in RULES}
        lock = locks["soft"]
        for kind, picture in pictures().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakMarkWarning)
                warnings.simplefilter("ignore", ExposedKeyWarning)
                marked = lock.mark(picture, RIGHT)
            seen = _jpeg(marked.picture.convert("RGB")) if kind == "jpeg" else marked.picture
            payload = marked.code ^ codeword(RIGHT, key, lock.bits)
            shared = {
                "watermark": watermark,
                "hash": image_hash,
                "key": key_name,
                "picture": kind,
                "psnr": round(marked.psnr, 3),
                "code": _hex(marked.code),
                "payload": _hex(payload),
                "read": _hex(lock.decode(seen)[0] > 0),
            }
            for rule, message in product(RULES, (RIGHT, WRONG)):
                verdict = locks[rule].verify(seen, message)
                yield {
                    **shared,
                    "rule": rule,
                    "message": message,
                    "accepted": verdict.accepted,
                    "matches": verdict.matches,
                    "p_value": verdict.p_value,
                }


def _jpeg(image: Image.Image) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return Image.open(io.BytesIO(file.getvalue()))


def _hex(bits: Any) -> str:
    return np.packbits(np.asarray(bits, dtype=np.uint8)).tobytes().hex()


def main() -> None:
    """Write the answers of every watermark whose weights are at hand."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in (*SHIPPED, *FETCHED):
        try:
            found[name] = list(answers(name))
        except CoverLockError as error:
            raise SystemExit(f"{name}: {error}") from error
        print(f"{name}: {len(found[name])} answers")
    FILE.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
