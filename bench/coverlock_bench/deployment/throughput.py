"""Verifying and embedding per second, against what the SDK did before and against dwtDctSvd.

Everything runs in turns on one core, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.embedder.embedder import Embedder
from coverlock_sdk.errors import LossyFormatWarning, needs
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.resampling import resample_matrix
from coverlock_sdk.verifier.verifier import Verifier

Pixels = npt.NDArray[np.uint8]
Figures = dict[str, Any]

SMALL = (640, 480)
LARGE = (4000, 3000)
QUALITY = 92
IDENTIFIER, OTHER = "order-4711", "order-4712"
BITS = 64

MEGAPIXELS = (3, 3, 3, 3, 6, 6, 6, 12, 12, 24)
"""Sizes of pictures on which verdicts are compared, over and over; one in fifty has 48."""


def throughput(
    bundle: Path, photos: Sequence[Path], count: int, rounds: int, seed: int
) -> Iterator[Figures]:
    """All figures; those on verdicts grow with every ten pictures."""
    with _one_core():
        figures: Figures = {
            "large_verify": _large(bundle, photos, rounds, seed),
            "small_verify": _small(bundle, photos, rounds),
            "small_embed": _embedding(bundle, photos, rounds),
            "large_embed": _large_embedding(bundle, photos, rounds, seed),
        }
        yield figures
        for verdicts in _verdicts(bundle, photos, count, seed):
            yield {**figures, "verdicts": verdicts}


def as_camera(photo: Path, size: tuple[int, int], rng: np.random.Generator) -> Pixels:
    """A photo enlarged to ``size`` (width, height), with shot and read noise in linear light."""
    with Image.open(photo) as image:
        enlarged = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    light = (np.asarray(enlarged, dtype=np.float32) / 255) ** 2.2
    light += rng.standard_normal(light.shape, dtype=np.float32) * np.sqrt(light / 2000 + 1e-5)
    return (np.clip(light, 0, 1) ** (1 / 2.2) * 255 + 0.5).astype(np.uint8)


def _large(bundle: Path, photos: Sequence[Path], rounds: int, seed: int) -> Figures:
    """Verification of the bytes of 12-megapixel JPEG files, now and as it was."""
    rng = np.random.default_rng(seed)
    embedder = Embedder.open(bundle, threads=1)
    covers = [as_camera(photo, LARGE, rng) for photo in photos[:2]]
    files = [_jpeg(embedder.embed(cover, IDENTIFIER)) for cover in covers]
    with Verifier.open(bundle, "cpu", threads=1, max_delay_ms=0) as verifier:
        size = verifier.bundle.manifest.graph_size
        works = {
            "before": lambda: [verifier.verify(_former(file, size), IDENTIFIER) for file in files],
            "now": lambda: [verifier.verify(file, IDENTIFIER) for file in files],
        }
        return _compared(works, rounds, len(files), "before")


def _small(bundle: Path, photos: Sequence[Path], rounds: int) -> Figures:
    """Batches of eight pictures of 640 x 480 against dwtDctSvd's decoder, arrays in memory."""
    library = _rival()
    pictures = [_at_size(photo, SMALL) for photo in photos[:8]]
    reader, mirrored = library.WatermarkDecoder("bits", BITS), [p[..., ::-1] for p in pictures]
    precisions = [p for p in ("fp32", "int8") if p in Bundle.open(bundle).manifest.graphs["verify"]]
    with contextlib.ExitStack() as stack:
        verifiers = {
            f"{runtime} {precision}": stack.enter_context(
                Verifier.open(bundle, runtime, precision=precision, threads=1)
            )
            for runtime in ("cpu", "openvino")
            for precision in precisions
        }
        works: dict[str, Callable[[], Any]] = {
            "dwtDctSvd": lambda: [reader.decode(p, "dwtDctSvd") for p in mirrored]
        }
        for name, verifier in verifiers.items():
            works[name] = partial(verifier.verify, pictures, IDENTIFIER)
        return _compared(works, rounds, len(pictures), "dwtDctSvd")


def _embedding(bundle: Path, photos: Sequence[Path], rounds: int) -> Figures:
    """JPEG files of 640 x 480 to marked files, against dwtDctSvd's encoder in memory."""
    library = _rival()
    pictures = [_at_size(photo, SMALL) for photo in photos[:6]]
    files, mirrored = [_jpeg(picture) for picture in pictures], [p[..., ::-1] for p in pictures]
    writer = library.WatermarkEncoder()
    writer.set_watermark("bits", [0, 1] * (BITS // 2))
    works: dict[str, Callable[[], Any]] = {
        "dwtDctSvd": lambda: [writer.encode(p, "dwtDctSvd") for p in mirrored]
    }
    for name, harden in (("hardened", True), ("not hardened", False)):
        embedder = Embedder.open(bundle, threads=1, harden=harden)
        for suffix in (".png", ".jpg"):
            works[f"{name}, {suffix}"] = partial(_mark_all, embedder, files, suffix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyFormatWarning)
        return _compared(works, rounds, len(files), "dwtDctSvd")


def _mark_all(embedder: Embedder, files: Sequence[bytes], suffix: str) -> None:
    for file in files:
        embedder.mark_content(file, IDENTIFIER, suffix)


def _large_embedding(bundle: Path, photos: Sequence[Path], rounds: int, seed: int) -> Figures:
    """Processor seconds from the bytes of a 12-megapixel JPEG to those of a marked file."""
    content = _jpeg(as_camera(photos[0], LARGE, np.random.default_rng(seed)))
    embedder = Embedder.open(bundle, threads=1)
    works: dict[str, Callable[[], Any]] = {
        suffix: partial(_mark_all, embedder, [content], suffix) for suffix in (".png", ".jpg")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyFormatWarning)
        return _compared(works, rounds, 1, ".png")


def _verdicts(bundle: Path, photos: Sequence[Path], count: int, seed: int) -> Iterator[Figures]:
    """Verdicts on files decoded at a fraction against those on whole pictures.

    Every picture is marked; each is asked for its own message, and for another one.
    """
    rng = np.random.default_rng(seed)
    embedder = Embedder.open(bundle, threads=1)
    figures: Figures = {"pictures": 0, "equal": 0, "accepted": 0, "decoded_twice": 0, "bits": 0}
    pixels = 0
    with Verifier.open(bundle, "cpu", threads=1, max_delay_ms=0) as verifier:
        size = verifier.bundle.manifest.graph_size
        for number in range(count):
            width, height = _shape(number)
            content = _jpeg(
                embedder.embed(
                    as_camera(photos[number % len(photos)], (width, height), rng), IDENTIFIER
                )
            )
            whole = read(content)
            seen = read(content, seen_at=size)
            for message in (IDENTIFIER, OTHER):
                exact = verifier.verify(whole.pixels, message)
                found = verifier.verify(content, message)
                figures["equal"] += exact.accepted == found.accepted
                figures["accepted"] += exact.accepted
                figures["decoded_twice"] += verifier.verify(seen.pixels, message).is_close
                figures["bits"] += abs(exact.matches - found.matches)
            pixels += width * height
            figures |= {"pictures": number + 1, "megapixels": round(pixels / 1e6 / (number + 1), 1)}
            if number % 10 == 9 or number == count - 1:
                yield dict(figures)


def _shape(number: int) -> tuple[int, int]:
    megapixels = 48 if number % 50 == 49 else MEGAPIXELS[number % len(MEGAPIXELS)]
    height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
    return height * 4 // 3, height


def _former(content: bytes, size: tuple[int, int]) -> Pixels:
    """What a picture was seen as before: decoded entirely, resampled plane by plane."""
    with Image.open(io.BytesIO(content)) as image:
        pixels = np.asarray(image)
    height, width = pixels.shape[:2]
    rows, seen = resample_matrix(height, size[0]), np.zeros((3, size[0], width), np.float32)
    for top in range(0, height, 256):
        strip = slice(top, min(top + 256, height))
        planes = np.ascontiguousarray(np.moveaxis(pixels[strip] / np.float32(255), -1, 0))
        touched = np.flatnonzero(rows[:, strip].any(axis=1))
        seen[:, touched] += rows[touched, strip] @ planes
    view = np.moveaxis(seen @ resample_matrix(width, size[1]).T, 0, -1)
    return np.rint(np.clip(view, 0, 1) * 255).astype(np.uint8)


def _compared(
    works: dict[str, Callable[[], Any]], rounds: int, pictures: int, baseline: str
) -> Figures:
    """Seconds of processor time a picture, and how many times as fast as the baseline."""
    seconds = seconds_in_turns(list(works.values()), rounds, clock=time.process_time) / pictures
    taken = dict(zip(works, seconds.T.tolist(), strict=True))
    return {
        name: {
            "seconds": statistics.median(times),
            "ratio": statistics.median(b / a for a, b in zip(times, taken[baseline], strict=True)),
        }
        for name, times in taken.items()
    }


def _at_size(photo: Path, size: tuple[int, int]) -> Pixels:
    with Image.open(photo) as image:
        return np.asarray(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))


def _jpeg(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def _rival() -> Any:
    with needs("the comparison with dwtDctSvd", "invisible-watermark", "invisible-watermark"):
        import imwatermark
    import cv2

    cv2.setNumThreads(1)
    return imwatermark


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Keep to one core, where the system lets a process choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
