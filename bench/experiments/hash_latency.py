"""How long a hash takes where it is deployed: as a graph in ONNX Runtime, beside DINOv2-S.

Time does not depend on the values of weights, so where DINOv2-S is not at hand a network of its
shape with random weights stands for it. The graphs take turns; what counts is the ratio.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk import load_hash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.dinov2 import SIZE, VARIANTS

if TYPE_CHECKING:
    import torch

REFERENCE = "dinov2-s"


def hash_latency(names: tuple[str, ...], threads: int, turns: int) -> dict[str, Any]:
    """Median milliseconds of one picture for each hash, and how often it fits into DINOv2-S's."""
    asked = {}
    for name in names:
        image_hash = load_hash(name)
        module = image_hash.module()
        if module is None:
            raise CoverLockError(f"the hash '{name}' has no PyTorch module to make a graph of")
        asked[name] = module, image_hash.input_size[0]
    modules = {REFERENCE: (_random_dinov2(), SIZE), **asked}
    with tempfile.TemporaryDirectory() as folder:
        works = [
            _session(module, size, Path(folder) / f"{name}.onnx", threads)
            for name, (module, size) in modules.items()
        ]
        seconds = seconds_in_turns(works, turns, warm_up=3)
    medians = 1000 * np.median(seconds, axis=0)
    ratios = np.median(seconds[:, :1] / seconds, axis=0)
    return {
        name: {"milliseconds": float(median), "speed_up": float(ratio)}
        for name, median, ratio in zip(modules, medians, ratios, strict=True)
    }


def _session(module: torch.nn.Module, size: int, file: Path, threads: int) -> Any:
    """Export ``module`` and return what runs its graph once."""
    import onnxruntime
    import torch

    picture = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    torch.onnx.export(module.eval(), (picture,), file, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: picture.numpy()}
    return partial(session.run, None, feeds)


def _random_dinov2() -> torch.nn.Module:
    """The paper's hash on DINOv2-S, with random weights."""
    import torch

    from coverlock_sdk.hashing.dinov2_network import PATCH, Dinov2, Dinov2Backbone
    from coverlock_sdk.hashing.network import HashNetwork

    shape = VARIANTS[REFERENCE].shape
    torch.manual_seed(0)
    return HashNetwork(Dinov2Backbone(Dinov2(**shape, side=SIZE // PATCH), SIZE, shape))
