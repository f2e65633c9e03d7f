"""A Triton server that somebody else runs: pictures go there, and what graphs answer comes back.

Keys and statistics stay here. ``coverlock triton`` writes the repository that it serves.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from coverlock_sdk.addresses import is_loopback
from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, Bundle
from coverlock_sdk.errors import CoverLockError, OverloadedError, RuntimeUnavailableError, needs

ADDRESS_VARIABLE = "COVERLOCK_TRITON"
CERTIFICATES_VARIABLE = "COVERLOCK_TRITON_CERTIFICATES"
SECURE = "grpcs://"
MODEL = "coverlock_verify"
"""What the model is called in the repository."""

TIMEOUT = 30.0
"""Seconds that a server has for an answer, so that a hanging server does not hang callers."""


class TritonRuntime:
    """One gRPC channel, shared by all threads."""

    name = "triton"

    def __init__(self, library: Any, client: Any, address: str, max_batch: int) -> None:
        self.providers: tuple[str, ...] = (f"tritonserver at {address}",)
        self._library = library
        self._client = client
        self._max_batch = max_batch

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Send a batch, in parts that the server takes, and wait for its answer."""
        starts = range(0, len(images), self._max_batch)
        parts = [self._run(images[start : start + self._max_batch]) for start in starts]
        decoded, described = zip(*parts, strict=True)
        return np.concatenate(decoded), np.concatenate(described)

    def _run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        tensor = self._library.InferInput(INPUT, images.shape, "UINT8")
        tensor.set_data_from_numpy(np.ascontiguousarray(images))
        try:
            answer = self._client.infer(MODEL, [tensor], client_timeout=TIMEOUT)
        except self._library.InferenceServerException as error:
            if "exceeds maximum queue size" in str(error).lower():
                raise OverloadedError(f"Triton is too busy: {error.message()}") from None
            if "DEADLINE_EXCEEDED" in str(error.status()):
                raise CoverLockError(
                    f"Triton did not answer {len(images)} pictures within {TIMEOUT:g} seconds: "
                    "check the server, or send smaller batches"
                ) from None
            raise CoverLockError(f"Triton failed on {len(images)} pictures: {error}") from None
        decoded, described = (np.asarray(answer.as_numpy(name), np.float32) for name in OUTPUTS)
        if not len(decoded) == len(described) == len(images):
            raise CoverLockError(f"Triton answered {len(decoded)} of {len(images)} pictures")
        return decoded, described

    def close(self) -> None:
        """Close the channel."""
        self._client.close()


def open_triton(bundle: Bundle, precision: str, threads: int | None) -> TritonRuntime:
    """The server that the environment names, provided that it serves this bundle."""
    address = os.environ.get(ADDRESS_VARIABLE)
    if not address:
        raise RuntimeUnavailableError(
            f"no Triton server is named: set {ADDRESS_VARIABLE} to its gRPC address, "
            f"{SECURE}HOST:PORT, or HOST:PORT on this machine"
        )
    with needs("this runtime", "the Triton client", "triton", RuntimeUnavailableError):
        import tritonclient.grpc as library
    client = library.InferenceServerClient(address.removeprefix(SECURE), **_security(address))
    try:
        metadata = client.get_model_metadata(MODEL, as_json=True, client_timeout=TIMEOUT)
        config = client.get_model_config(MODEL, as_json=True, client_timeout=TIMEOUT)["config"]
    except library.InferenceServerException as error:
        raise RuntimeUnavailableError(f"{address} does not serve {MODEL}: {error}") from None
    shapes = {t["name"]: [int(n) for n in t["shape"]] for t in metadata["inputs"]}
    shapes |= {t["name"]: [int(n) for n in t["shape"]] for t in metadata["outputs"]}
    manifest = bundle.manifest
    expected = {
        INPUT: [-1, *manifest.graph_size, 3],
        OUTPUTS[0]: [-1, manifest.payload_bits],
        OUTPUTS[1]: [-1, *manifest.description_shape],
    }
    if shapes != expected:
        raise RuntimeUnavailableError(
            f"the model at {address} is not that of {bundle.path}: it has {shapes}"
        )
    max_batch = int(config.get("max_batch_size", 0)) or sys.maxsize  # 0 is no limit
    return TritonRuntime(library, client, address, max_batch)


def _security(address: str) -> dict[str, Any]:
    """How a server is spoken to: with TLS, unless it is on this machine."""
    if address.startswith(SECURE):
        return {"ssl": True, "root_certificates": os.environ.get(CERTIFICATES_VARIABLE)}
    if is_loopback(address.rpartition(":")[0]):
        return {}
    raise RuntimeUnavailableError(
        f"whoever is between here and {address} could answer for Triton: use {SECURE}{address} "
        "and let the server speak TLS"
    )
