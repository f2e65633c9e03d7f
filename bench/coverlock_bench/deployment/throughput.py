"""Verifying and embedding per second, against dwtDctSvd.

Everything runs in turns on one core, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import contextlib
import io
import itertools
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
from coverlock_sdk.bundles.trust import ANYONE
from coverlock_sdk.embedder.embedder import Embedder
from coverlock_sdk.errors import LossyFormatWarning, needs
from coverlock_sdk.verifier.verifier import Verifier

Pixels = npt.NDArray[np.uint8]
Figures = dict[str, Any]

SMALL = (640, 480)
TINY = (256, 256)
"""The least that dwtDctSvd takes."""
LARGE = (4000, 3000)
QUALITY = 92
IDENTIFIER = "order-4711"
BITS = 64


def throughput(bundle: Path, photos: Sequence[Path], rounds: int, seed: int) -> Iterator[Figures]:
    """All figures, one kind after the other."""
    kinds: dict[str, Callable[[], Figures]] = {
        "verify, 12 megapixels": lambda: _large(bundle, photos, rounds, seed),
        "verify, 640 x 480": lambda: _small(bundle, photos, rounds),
        "verify, 256 x 256": lambda: _tiny(bundle, photos, rounds),
        "embed, 640 x 480": lambda: _embedding(bundle, photos, rounds),
        "embed, 12 megapixels": lambda: _large_embedding(bundle, photos, rounds, seed),
    }
    figures: Figures = {}
    with _one_core():
        for kind, measure in kinds.items():
            figures[kind] = measure()
            yield dict(figures)


def as_camera(photo: Path, size: tuple[int, int], rng: np.random.Generator) -> Pixels:
    """A photo enlarged to ``size`` (width, height), with shot and read noise in linear light."""
    with Image.open(photo) as image:
        enlarged = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    light = (np.asarray(enlarged, dtype=np.float32) / 255) ** 2.2
    light += rng.standard_normal(light.shape, dtype=np.float32) * np.sqrt(light / 2000 + 1e-5)
    return (np.clip(light, 0, 1) ** (1 / 2.2) * 255 + 0.5).astype(np.uint8)


def _large(bundle: Path, photos: Sequence[Path], rounds: int, seed: int) -> Figures:
    """Verification of the bytes of 12-megapixel JPEG files, and of all of their pixels."""
    rng = np.random.default_rng(seed)
    embedder = Embedder.open(bundle, trust=ANYONE, threads=1)
    covers = [as_camera(photo, LARGE, rng) for photo in photos[:2]]
    files = [jpeg(embedder.embed(cover, IDENTIFIER)) for cover in covers]
    with Verifier.open(bundle, "cpu", threads=1, max_delay_ms=0, trust=ANYONE) as verifier:
        works = {
            "all pixels": lambda: [verifier.verify(_decoded(f), IDENTIFIER) for f in files],
            "bytes": lambda: [verifier.verify(file, IDENTIFIER) for file in files],
        }
        return _compared(works, rounds, len(files), "all pixels")


def _small(bundle: Path, photos: Sequence[Path], rounds: int) -> Figures:
    """Batches of eight pictures of 640 x 480 against dwtDctSvd's decoder, arrays in memory."""
    pictures = [at_size(photo, SMALL) for photo in photos[:8]]
    mirrored = [picture[..., ::-1] for picture in pictures]
    reader = _rival().WatermarkDecoder("bits", BITS)
    return _against(
        bundle, pictures, lambda: [reader.decode(p, "dwtDctSvd") for p in mirrored], rounds
    )


def _tiny(bundle: Path, photos: Sequence[Path], rounds: int) -> Figures:
    """Batches of eight JPEG files of 256 x 256, from their bytes on either side."""
    import cv2

    reader = _rival().WatermarkDecoder("bits", BITS)
    files = [jpeg(at_size(photo, TINY)) for photo in photos[:8]]

    def rival() -> None:
        for file in files:
            picture = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
            reader.decode(picture, "dwtDctSvd")

    return _against(bundle, files, rival, rounds)


def _against(bundle: Path, pictures: list[Any], rival: Callable[[], Any], rounds: int) -> Figures:
    """Verification of ``pictures`` together, in every runtime and precision, against a rival."""
    precisions = [p for p in ("fp32", "int8") if p in Bundle.open(bundle).manifest.graphs["verify"]]
    works = {"dwtDctSvd": rival}
    with contextlib.ExitStack() as stack:
        for runtime, precision in itertools.product(("cpu", "openvino"), precisions):
            verifier = stack.enter_context(
                Verifier.open(bundle, runtime, precision=precision, threads=1, trust=ANYONE)
            )
            works[f"{runtime} {precision}"] = partial(verifier.verify, pictures, IDENTIFIER)
        return _compared(works, rounds, len(pictures), "dwtDctSvd")


def _embedding(bundle: Path, photos: Sequence[Path], rounds: int) -> Figures:
    """JPEG files of 640 x 480 to marked files, against dwtDctSvd's encoder in memory."""
    library = _rival()
    pictures = [at_size(photo, SMALL) for photo in photos[:6]]
    files, mirrored = [jpeg(picture) for picture in pictures], [p[..., ::-1] for p in pictures]
    writer = library.WatermarkEncoder()
    writer.set_watermark("bits", [0, 1] * (BITS // 2))
    works: dict[str, Callable[[], Any]] = {
        "dwtDctSvd": lambda: [writer.encode(p, "dwtDctSvd") for p in mirrored]
    }
    embedder = Embedder.open(bundle, trust=ANYONE, threads=1)
    for suffix in (".png", ".jpg"):
        works[suffix] = partial(_mark_all, embedder, files, suffix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyFormatWarning)
        return _compared(works, rounds, len(files), "dwtDctSvd")


def _mark_all(embedder: Embedder, files: Sequence[bytes], suffix: str) -> None:
    for file in files:
        embedder.mark_content(file, IDENTIFIER, suffix)


def _large_embedding(bundle: Path, photos: Sequence[Path], rounds: int, seed: int) -> Figures:
    """Processor seconds from the bytes of a 12-megapixel JPEG to those of a marked file."""
    content = jpeg(as_camera(photos[0], LARGE, np.random.default_rng(seed)))
    embedder = Embedder.open(bundle, trust=ANYONE, threads=1)
    works: dict[str, Callable[[], Any]] = {
        suffix: partial(_mark_all, embedder, [content], suffix) for suffix in (".png", ".jpg")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyFormatWarning)
        return _compared(works, rounds, 1, ".png")


def _decoded(content: bytes) -> Pixels:
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


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


def at_size(photo: Path, size: tuple[int, int]) -> Pixels:
    """A photo, resampled."""
    with Image.open(photo) as image:
        return np.asarray(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))


def jpeg(pixels: Pixels, quality: int = QUALITY) -> bytes:
    """The content of a JPEG file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
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
