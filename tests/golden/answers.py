"""The golden answers: what the SDK does to a fixed set of pictures, and says of them.

A change that is not meant to change any answer must leave them as they are. Where a change is
meant to, write them anew and let the difference be read with it::

    python -m tests.golden.answers
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
from PIL import Image, ImageEnhance

from coverlock_sdk import Key, Verdict, load_watermark, wrap
from coverlock_sdk.arrays import Pixels
from coverlock_sdk.errors import LookalikeWarning, WeakMarkWarning
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditiveMark

FILE = Path(__file__).with_name("answers.jsonl")

KEYS = {"keyless": None, "keyed": Key(bytes(range(32)), id="golden", created="")}
NAMES = ("order-4711", "order-4711/000001", "order-4712")
CHANGES = ("none", "JPEG", "half size", "brighter")

Answer = dict[str, Any]


def answers() -> Iterator[Answer]:
    """Every answer, in a fixed order: a quick watermark on all pictures, a network on one."""
    every = pictures()
    watermarks = [AdditiveMark(), load_watermark("mbrs")]
    for watermark, (key_name, key) in product(watermarks, KEYS.items()):
        lock = wrap(watermark, key=key)
        for kind in every if watermark.name == "additive" else ("native",):
            for answer in _about(lock, every[kind]):
                yield {"watermark": watermark.name, "key": key_name, "picture": kind, **answer}
    unmarked = _said(lock.verify(every["native"], NAMES[0]))
    yield {"watermark": watermark.name, "picture": "native", "asked": "verify", **unmarked}


def _about(lock: LockedWatermark, picture: Image.Image) -> Iterator[Answer]:
    """The answers about one picture, marked with each kind of message."""
    bits = np.arange(lock.bits) // 3 % 2
    for kind, message in {"identifier": NAMES[0], "serial": NAMES[1], "bits": bits}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LookalikeWarning)
            warnings.simplefilter("ignore", WeakMarkWarning)
            marked = lock.mark(picture, message)
        about = {"message": kind}
        yield {
            **about,
            "asked": "mark",
            "psnr": round(marked.psnr, 3),
            "salt": marked.salt,
            "code": np.packbits(marked.code).tobytes().hex(),
            "pixels": _checksum(np.asarray(marked.picture)),
        }
        for change in CHANGES:
            seen = _changed(marked.picture, change)
            yield {**about, "asked": f"verify, {change}", **_said(lock.verify(seen, message))}
        book = [bits, 1 - bits] if kind == "bits" else list(NAMES)
        found = lock.identify(marked.picture, book)
        yield {**about, "asked": "identify", "label": found.label, **_said(found.verdict)}


def _said(verdict: Verdict) -> Answer:
    """What is kept of a verdict: how near to passing a rejected picture came may change."""
    if not verdict:
        return {"accepted": False}
    return {"accepted": True, "matches": verdict.matches, "p_value": verdict.p_value}


def _checksum(pixels: Pixels) -> int:
    """A sum with random signs: rounding hardly moves it, and other pixels move it far."""
    signs = np.random.default_rng(0).choice([-1, 1], pixels.shape)
    return int((signs * pixels).sum())


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
        "jpeg": _jpeg(Image.fromarray(jpeg), 80),
    }


def _changed(image: Image.Image, change: str) -> Image.Image:
    if change == "JPEG":
        return _jpeg(image.convert("RGB"), 90)
    if change == "half size":
        return image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)
    return ImageEnhance.Brightness(image).enhance(1.1) if change == "brighter" else image


def _jpeg(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


def golden() -> list[Answer]:
    """The answers as they were written down."""
    return [json.loads(line) for line in FILE.read_text().splitlines()]


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(answer) + "\n" for answer in answers()))
    print(f"{len(golden())} answers in {FILE}")
