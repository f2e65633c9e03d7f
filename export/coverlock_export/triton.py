"""A Triton model repository from a bundle.

Triton runs the graph on the GPU host; keys, codes and statistics stay with the caller, so that the
repository holds no secret. ``coverlock_sdk.verifier.triton_runtime`` is the other half.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, Bundle, building
from coverlock_sdk.bundles.engines import Engine
from coverlock_sdk.verifier.triton_runtime import MODEL

MAX_BATCH = 32


@dataclass(frozen=True)
class Model:
    """A model of a repository, and why each engine of the bundle is not what it runs."""

    folder: Path
    passed_over: dict[str, str]


def write_model_repository(
    bundle: Bundle, out: Path, precision: str = "fp32", instances: int = 1
) -> Model:
    """Write the ``verify`` graph of ``bundle`` as a repository for ``tritonserver``.

    A TensorRT engine is taken where a bundle whose signature was checked holds one in this
    precision, and the ONNX graph otherwise.
    """
    engine, passed_over = _engine(bundle, precision)
    with building(out / MODEL) as model:
        version = model / "1"
        version.mkdir()
        if engine is not None:
            (version / "model.plan").write_bytes(bundle.read(engine.file))
        else:
            (version / "model.onnx").write_bytes(bundle.read(bundle.file("verify", precision)))
        (model / "config.pbtxt").write_text(model_config(bundle, engine, instances))
    return Model(out / MODEL, passed_over)


def model_config(bundle: Bundle, engine: Engine | None, instances: int = 1) -> str:
    """The model's ``config.pbtxt``."""
    manifest = bundle.manifest
    height, width = manifest.graph_size
    if engine is None:
        backend, kind, file, largest = "onnxruntime", "KIND_AUTO", "model.onnx", MAX_BATCH
    else:
        backend, kind, file, largest = "tensorrt", "KIND_GPU", "model.plan", engine.batches[2]
    preferred = engine.batches[1] if engine is not None else 8
    outputs = zip(OUTPUTS, ((manifest.payload_bits,), manifest.description_shape), strict=True)
    lines = [
        f"# {manifest.watermark} with {manifest.hash}, made by 'coverlock triton'",
        f'name: "{MODEL}"',
        f'backend: "{backend}"',
        f'default_model_filename: "{file}"',
        f"max_batch_size: {largest}",
        f'input {{ name: "{INPUT}" data_type: TYPE_UINT8 dims: [ {height}, {width}, 3 ] }}',
        *(
            f'output {{ name: "{name}" data_type: TYPE_FP32 dims: {list(shape)} }}'
            for name, shape in outputs
        ),
        "dynamic_batching {",
        f"  preferred_batch_size: [ {preferred}, {largest} ]",
        "  max_queue_delay_microseconds: 2000",
        "  default_queue_policy { max_queue_size: 256 }",  # one more is refused, not kept waiting
        "}",
        f"instance_group {{ count: {instances} kind: {kind} }}",
        "model_warmup {",
        '  name: "first picture"',
        f"  batch_size: {preferred}",
        f'  inputs {{ key: "{INPUT}" value: {{ data_type: TYPE_UINT8 '
        f"dims: [ {height}, {width}, 3 ] zero_data: true }} }}",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _engine(bundle: Bundle, precision: str) -> tuple[Engine | None, dict[str, str]]:
    """The first engine that Triton can and may run, and why none before it."""
    passed_over: dict[str, str] = {}
    for engine in bundle.engines("verify", precision):
        misfit = _misfit(engine, bundle)
        if misfit is None:
            return engine, passed_over
        passed_over[engine.file] = misfit
    return None, passed_over


def _misfit(engine: Engine, bundle: Bundle) -> str | None:
    if engine.target != "tensorrt":
        return f"Triton does not run engines of {engine.target}"
    if engine.batches[0] > 1:
        return f"it takes no fewer than {engine.batches[0]} pictures, and Triton may send it one"
    if not bundle.signed:
        return "it is executable code, and the bundle's signature was not checked: give --trust"
    return None
