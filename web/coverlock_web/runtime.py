"""ONNX Runtime Web, which runs an exported graph in a browser."""

from __future__ import annotations

from coverlock_sdk.models.assets import Asset

VERSION = "1.30.0"
MODULE = "ort.wasm.bundle.min.mjs"
BINARY = "ort-wasm-simd-threaded.wasm"

RUNTIME = Asset(
    name="onnxruntime-web",
    project="onnxruntime-web",
    wheel=f"onnxruntime-web-{VERSION}.tgz",
    sha256="d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71",
    members=(f"package/dist/{MODULE}", f"package/dist/{BINARY}"),
    description="runs graphs in a browser, for 'coverlock web' (MIT)",
)
