"""The golden answers: what the SDK does to a fixed set of pictures, and says of them.

A change that is not meant to change any answer must leave them as they are. Where a change is
meant to, write them anew and let the difference be read with it::

    python -m tests.golden.answers
"""

import io
import itertools
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

from coverlock_sdk import Key, Verdict, Verifier, load_watermark, wrap
from coverlock_sdk.arrays import Pixels
from coverlock_sdk.embedder import Embedder
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.distortions import Rotation
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditiveMark
from tests.served import DETAILED, ask, png, served
from tests.toy_bundle import write_toy_bundle

FILE = Path(__file__).with_name("answers.jsonl")

KEY = Key(bytes(range(32)), id="golden")
NAMES = ("order-4711", "order-4711/000001", "order-4712")
CHANGES = ("none", "JPEG", "half size", "brighter", "cropped", "turned")

Answer = dict[str, Any]


SUBJECTS = (
    *itertools.product(("additive", "mbrs"), ("keyless", "keyed", "registry")),
    ("toy", "bundle"),
)
"""Whom is asked, in the order of the file: each lock of each watermark, and a bundle."""


def subject_of(answer: Answer) -> tuple[str, str]:
    """Whose answer it is."""
    return (answer["watermark"], answer["lock"]) if "lock" in answer else ("toy", "bundle")


def answers_of(subject: tuple[str, str]) -> Iterator[Answer]:
    """Every answer of one subject, in a fixed order."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if subject == SUBJECTS[-1]:
            yield from _of_a_bundle(Path(folder))
        else:
            yield from _of_a_lock(Path(folder), *subject)


def _of_a_lock(folder: Path, mark: str, name: str) -> Iterator[Answer]:
    """A quick watermark on all pictures, a network on one."""
    every = pictures()
    lock = wrap(
        AdditiveMark() if mark == "additive" else load_watermark(mark),
        key=None if name == "keyless" else KEY,
        registry=folder / "registry.db" if name == "registry" else None,
    )
    for kind in every if mark == "additive" else ("native",):
        for answer in _about(lock, every[kind]):
            yield {"watermark": mark, "lock": name, "picture": kind, **answer}
    unmarked = _said(lock.verify(every["native"], NAMES[2]))
    yield {"watermark": mark, "lock": name, "asked": "unmarked", **unmarked}


def _of_a_bundle(folder: Path) -> Iterator[Answer]:
    """What a verifier, an embedder and the service say of the same pictures."""
    bundle = write_toy_bundle(folder / "bundle", embedding=True, image_hash=OctaveCode())
    with Verifier.open(bundle, "cpu", key=KEY) as verifier:
        embedder = Embedder.open(bundle, key=KEY)
        with served(verifier, embedder=embedder, names=NAMES) as client:
            for kind, picture in pictures().items():
                marked = embedder.mark(picture.convert("RGB"), NAMES[0])
                about = {"bundle": "toy", "picture": kind}
                yield {**about, "asked": "mark", "pixels": _checksum(np.asarray(marked.picture))}
                for change in CHANGES:
                    seen = _changed(marked.picture, change)
                    yield {**about, "asked": change, **_said(verifier.verify(seen, NAMES[0]))}
                    content = png(np.asarray(seen))
                    told = ask(client, content, token=DETAILED, id=NAMES[0]).json()
                    kept = {name: told[name] for name in ("accepted", "bits", "fpr", "key_id")}
                    yield {**about, "asked": f"service, {change}", **kept}


def _about(lock: LockedWatermark, picture: Image.Image) -> Iterator[Answer]:
    """The answers about one picture, marked with each kind of message."""
    bits = np.arange(lock.bits) // 3 % 2
    for kind, message in {"identifier": NAMES[0], "serial": NAMES[1], "bits": bits}.items():
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
    frame = [round(value, 2) for value in verdict.frame[:4]] if verdict.frame else None
    return {
        "accepted": True,
        "matches": verdict.matches,
        "p_value": verdict.p_value,
        "frame": frame,
    }


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
    clear = np.clip(np.add.outer(np.arange(280), np.arange(320)), 240, 255).astype(np.uint8)
    return {
        "native": Image.fromarray(small),
        "large": Image.fromarray(large),
        "grey": Image.fromarray(grey).convert("L"),
        "alpha": Image.fromarray(np.dstack([alpha, clear])),
        "jpeg": _jpeg(Image.fromarray(jpeg), 80),
        "palette": Image.fromarray(small[:, ::-1]).quantize(200),
        "upright": Image.fromarray(np.ascontiguousarray(large.transpose(1, 0, 2))),
    }


def _changed(image: Image.Image, change: str) -> Image.Image:
    if change == "JPEG":
        return _jpeg(image.convert("RGB"), 90)
    if change == "half size":
        return image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)
    if change == "cropped":
        return image.crop((8, 0, 8 + round(0.94 * image.width), round(0.94 * image.height)))
    if change == "turned":
        mode = "RGBA" if image.mode == "RGBA" else "RGB"
        turned = Rotation(2.0)(np.asarray(image.convert(mode)), np.random.default_rng(0))
        return Image.fromarray(turned)
    return ImageEnhance.Brightness(image).enhance(1.1) if change == "brighter" else image


def _jpeg(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


def golden() -> list[Answer]:
    """The answers as they were written down."""
    return [json.loads(line) for line in FILE.read_text().splitlines()]


if __name__ == "__main__":
    every = itertools.chain.from_iterable(map(answers_of, SUBJECTS))
    FILE.write_text("".join(json.dumps(answer) + "\n" for answer in every))
    print(f"{len(golden())} answers in {FILE}")
