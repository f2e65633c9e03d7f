"""Exports a watermark and a hash as one bundle, and checks that it answers as the SDK does."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from coverlock_export.graphs import OPSET, Embedding, Verification, export_graph, serialise
from coverlock_export.parity import Run, Trial, hold_to_limits, measured_parity
from coverlock_export.precision import to_fp16, to_int8
from coverlock_sdk import CoverLockError, ImageHash, LockedWatermark, Watermark
from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import (
    INPUT,
    OUTPUTS,
    PAYLOADS,
    Bundle,
    HostPlugin,
    Manifest,
    building,
    seal,
)
from coverlock_sdk.bundles.bundle_lock import digest_of, pinned_plugin
from coverlock_sdk.errors import BundleError, PluginError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.plugin_calls import embed
from coverlock_sdk.progress import progress, working
from coverlock_sdk.verifier.onnx_runtime import cpu_session

PRECISIONS = ("fp32", "fp16", "int8")

LEAST_PHOTOS = 32
"""Fewer would show neither the range of activations nor that verdicts agree."""

MOST_CALIBRATION_PHOTOS = 64
ENCODER_PHOTOS = 4

_PACKAGES = ("coverlock-sdk", "torch", "onnx", "onnxscript", "numpy")


@dataclass(frozen=True)
class ExportRequest:
    """What to export: a lock, in which precisions, and photos to calibrate and check it on."""

    lock: LockedWatermark
    photos: Sequence[Path]
    precisions: Sequence[str] = PRECISIONS
    force: bool = False
    count: int = 500
    """The most photos that take part in the parity gate."""
    seed: int = 0
    version: str | None = None
    """What the bundle is called, to tell it from earlier ones."""

    @property
    def decoder(self) -> nn.Module | None:
        """The decoder as a network; without one, its plugin decodes on the host."""
        watermark = self.lock.watermark
        return None if watermark.native_size is None else watermark.decoder_module()

    @property
    def size(self) -> tuple[int, int]:
        """The size of the pictures that the graphs take."""
        return self.lock.watermark.native_size or self.hash.input_size

    @property
    def hash(self) -> ImageHash:
        """The hash of the lock."""
        if self.lock.hash is None:
            raise CoverLockError("a bundle is for a locked watermark: choose a hash")
        return self.lock.hash


def export_bundle(request: ExportRequest, out: Path) -> Bundle:
    """Build a bundle in ``out``. It appears whole, after its graphs passed, or not at all."""
    if "fp32" not in request.precisions:
        raise BundleError("the fp32 graph is the master of the others: export it too")
    decoder = request.decoder
    plugin = pinned_plugin(request.lock.watermark) if decoder is None else None
    network = _network(request, decoder)
    calibration, photos = _split(request)
    with building(out) as folder:
        for photo in progress([*calibration, *photos], "reading photos"):
            read(photo)  # to stop at a damaged one now rather than after minutes of work
        main = "hash" if decoder is None else "verify"
        graphs: dict[str, dict[str, str]] = {main: {}}
        for precision, graph in _precisions(request, network, calibration):
            file = f"{main}.onnx" if precision == "fp32" else f"{main}.{precision}.onnx"
            (folder / file).write_bytes(serialise(graph))
            graphs[main][precision] = file
        samples = _stack(photos[:ENCODER_PHOTOS], request.size)
        with working("exporting the encoder"):
            encoder, exactness = export_encoder(request.lock.watermark, samples, request.seed)
        if encoder is not None:
            (folder / "embed.onnx").write_bytes(encoder)
            graphs["embed"] = {"fp32": "embed.onnx"}
            if not request.hash.registers:
                # Embedding asks for the hash more often than for the decoder.
                hashing, name = _network(request, None), f"'{request.hash.name}'"
                with working("exporting the hash"):
                    graph = export_graph(hashing, [_example(request)], [INPUT], OUTPUTS[1:], name)
                (folder / "hash.onnx").write_bytes(serialise(graph))
                graphs["hash"] = {"fp32": "hash.onnx"}
        manifest = _manifest(request, graphs, plugin)
        seal(folder, manifest)
        torch_run = None if decoder is None else _torch_answers(network)
        trial = Trial.prepare(request.lock, photos, request.seed)
        figures = measured_parity(trial, Bundle.open(folder), torch_run)
        hold_to_limits(figures, request.force)
        parity = {"photos": len(photos), "seed": request.seed, "graphs": figures}
        seal(folder, replace(manifest, parity={**parity, "embed": exactness}))
    return Bundle.open(out)


def _split(request: ExportRequest) -> tuple[list[Path], list[Path]]:
    """Photos for calibration and, apart from them, for the parity gate."""
    if len(request.photos) < LEAST_PHOTOS:
        raise BundleError(
            f"an export needs at least {LEAST_PHOTOS} photos to calibrate and check its graphs, "
            f"and there are {len(request.photos)}: name a larger folder with --images"
        )
    order = np.random.default_rng(request.seed).permutation(len(request.photos))
    shuffled = [request.photos[index] for index in order]
    cut = min(len(shuffled) // 2, MOST_CALIBRATION_PHOTOS)
    return shuffled[:cut], shuffled[cut : cut + request.count]


def _network(request: ExportRequest, decoder: nn.Module | None) -> Verification:
    """The hash of a request behind the preprocessing of its graphs, beside the ``decoder``."""
    image_hash = request.hash.module()
    if image_hash is None:
        raise PluginError(f"the hash '{request.hash.name}' cannot be exported: it has no module()")
    return Verification(decoder, image_hash, request.size, request.hash.input_size).eval()


def _precisions(
    request: ExportRequest, network: Verification, calibration: list[Path]
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The graphs that were asked for, each with its precision."""
    name = f"'{request.lock.watermark.name}' with '{request.hash.name}'"
    outputs = OUTPUTS[1:] if network.decoder is None else OUTPUTS
    with working("exporting fp32"):
        master = export_graph(network, [_example(request)], [INPUT], outputs, name)
    yield "fp32", master
    if "fp16" in request.precisions:
        with working("exporting fp16"):
            half = to_fp16(master)
        yield "fp16", half
    if "int8" in request.precisions:
        with working("exporting int8"):
            eighth = to_int8(master, _stack(calibration, request.size))
        yield "int8", eighth


def _torch_answers(network: nn.Module) -> Run:
    def run(images: Pixels) -> tuple[Logits, Descriptions]:
        with torch.inference_mode():
            decoded, described = network(torch.from_numpy(images))
        return decoded.numpy(), described.numpy()

    return run


def _manifest(
    request: ExportRequest, graphs: dict[str, dict[str, str]], plugin: HostPlugin | None
) -> Manifest:
    lock, watermark, image_hash = request.lock, request.lock.watermark, request.hash
    return Manifest(
        watermark=watermark.name,
        payload_bits=watermark.bits,
        calibration=watermark.calibration,
        size=watermark.native_size,
        hash=image_hash.name,
        hash_size=image_hash.input_size,
        bands=image_hash.bands,
        hash_calibration=image_hash.calibration,
        hash_digest=digest_of(image_hash),
        fpr=lock.fpr,
        opset=OPSET,
        key_fingerprint=lock.keyring.keys[0].fingerprint if lock.keyring else None,
        graphs=graphs,
        plugin=plugin,
        version=request.version,
        made={
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
            "onnxruntime": onnxruntime.__version__,  # whichever of its distributions it is from
        },
    )


def _example(request: ExportRequest) -> torch.Tensor:
    return torch.zeros(1, *request.size, 3, dtype=torch.uint8)


def _stack(photos: list[Path], size: tuple[int, int]) -> Pixels:
    return np.stack([read(photo).to_bytes(size) for photo in photos])


TOLERANCE = 1e-3
"""A quarter of an 8-bit step: how far the graph may be from the plugin's own encoder."""


def export_encoder(
    watermark: Watermark, images: Pixels, seed: int
) -> tuple[bytes | None, dict[str, Any]]:
    """The graph, where there is one that exports and is exact; and how exact, or why not."""
    encoder = watermark.encoder_module()
    if encoder is None:
        return None, {"left_out": f"'{watermark.name}' offers no encoder_module()"}
    try:
        graph = export_graph(
            Embedding(encoder),
            [
                torch.zeros(1, *images.shape[1:], dtype=torch.uint8),
                torch.zeros(1, watermark.bits, dtype=torch.uint8),
            ],
            [INPUT, PAYLOADS],
            ["residuals"],
            f"the encoder of '{watermark.name}'",
        )
    except CoverLockError as error:
        return None, {"left_out": str(error)}
    content = serialise(graph)
    difference = _difference(watermark, content, images, seed)
    figures = {"photos": len(images), "max_difference": difference}
    if difference > TOLERANCE:
        reason = f"its pictures differ from the plugin's by up to {difference:.2g}"
        return None, {**figures, "left_out": reason}
    return content, figures


def _difference(watermark: Watermark, content: bytes, images: Pixels, seed: int) -> float:
    rng = np.random.default_rng(seed)
    payloads = rng.integers(0, 2, (len(images), watermark.bits), dtype=np.uint8)
    views = np.moveaxis(images, -1, 1).astype(np.float32) / np.float32(255)
    [residuals] = cpu_session(content).run(None, {INPUT: images, PAYLOADS: payloads})
    # Whoever adds a residual clips to [0, 1], as the plugin's own embed does.
    marked = np.clip(views + residuals, 0, 1)
    return float(np.abs(marked - embed(watermark, views, payloads)).max())
