"""OpenVINO, on the processor."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, Bundle
from coverlock_sdk.errors import CoverLockError, RuntimeUnavailableError, needs
from coverlock_sdk.threads import thread_limit


class OpenVinoRuntime:
    """A compiled model, with one inference request per thread."""

    name = "openvino"

    def __init__(self, model: Any) -> None:
        self.providers: tuple[str, ...] = tuple(model.get_property("EXECUTION_DEVICES"))
        self._model = model
        self._outputs = [output.any_name for output in model.outputs]
        self._local = threading.local()

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Run the graph on a batch."""
        request = getattr(self._local, "request", None)
        if request is None:
            request = self._local.request = self._model.create_infer_request()
        try:
            request.infer({INPUT: images})
        except Exception as error:
            if "alloc" in str(error).lower():
                raise MemoryError(str(error)) from error
            raise CoverLockError(f"OpenVINO failed on {len(images)} pictures: {error}") from error
        # Copies, since the next batch of this thread overwrites the request's own tensors.
        found = {
            name: np.array(request.get_tensor(name).data, np.float32) for name in self._outputs
        }
        return found.get(OUTPUTS[0], np.empty((len(images), 0), np.float32)), found[OUTPUTS[1]]

    def close(self) -> None:
        """Drop the model."""
        self._model, self._local = None, threading.local()


def open_openvino(bundle: Bundle, precision: str, threads: int | None) -> OpenVinoRuntime:
    """The bundle on OpenVINO's processor device."""
    with needs("this runtime", "OpenVINO", "openvino", RuntimeUnavailableError):
        import openvino
    # Otherwise OpenVINO quietly computes in bfloat16 on processors that have it, whatever the graph
    # says; the hint leaves its 8-bit layers alone.
    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    if (limit := thread_limit(threads)) is not None:
        settings["INFERENCE_NUM_THREADS"] = limit
    name = bundle.file(bundle.graph, precision)
    content = bundle.read(name)
    try:
        core = openvino.Core()
        model = core.compile_model(core.read_model(content, b""), "CPU", settings)
    except Exception as error:
        # The bundle is fine: OpenVINO lacks some operations that other runtimes have.
        reason = next((line for line in str(error).splitlines() if "Unsupported" in line), error)
        raise RuntimeUnavailableError(f"OpenVINO does not accept {name}: {reason}") from error
    return OpenVinoRuntime(model)
