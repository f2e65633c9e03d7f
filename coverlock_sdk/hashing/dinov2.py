"""``dinov2-s/b/l/g``: the paper's hash, a trained head on a frozen DINOv2 (appendix B.1).

Neither backbones nor heads ship with the package. A folder per hash holds them, inside
``COVERLOCK_MODELS`` or the user's cache folder:

    dinov2-s/config.json, model.safetensors    as on the Hugging Face hub
    dinov2-s/head.safetensors, head.json       made by ``coverlock train hash``
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient, ImageHash
from coverlock_sdk.documents import Document, DocumentError, read_file
from coverlock_sdk.errors import CorruptModelError, MissingModelError, needs
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.models.assets import Progress, cache_folder
from coverlock_sdk.models.digests import record_digests, require_digests, require_recorded

if TYPE_CHECKING:
    from torch import Tensor

    from coverlock_sdk.hashing.network import Backbone, HashNetwork

SIZE = 224
"""Side of the picture that the backbone sees: a grid of 16 x 16 patches of 14 pixels."""

PATCH, PATCHES = 14, 37
"""Pixels along a patch, and patches along the pictures that DINOv2 was trained on."""


@dataclass(frozen=True)
class Variant:
    """One size of DINOv2: where it is published, and its shape."""

    repository: str
    width: int
    layers: int
    heads: int
    revision: str
    """The commit of the repository that is fetched, whatever is there later."""
    sha256: str | None
    """Of its weights; None where the commit alone names them."""
    gated: bool = False
    """The giant's feed-forward layers are SwiGLU."""


VARIANTS = {
    "dinov2-s": Variant(
        "facebook/dinov2-small",
        384,
        12,
        6,
        "ed25f3a31f01632728cabb09d1542f84ab7b0056",
        "ae1e99fcefd534ed978cdeb8326f08030c96e28b7a81ffcbc98a857c84d14be1",
    ),
    "dinov2-b": Variant(
        "facebook/dinov2-base", 768, 12, 12, "f9e44c814b77203eaa57a6bdbbd535f21ede1415", None
    ),
    "dinov2-l": Variant(
        "facebook/dinov2-large",
        1024,
        24,
        16,
        "47b73eefe95e8d44ec3623f8890bd894b6ea2d6c",
        "399fba97a95f22c36834418bc69373364a99af3a1153da1c0fb31db567c92e23",
    ),
    "dinov2-g": Variant(
        "facebook/dinov2-giant",
        1536,
        40,
        24,
        "611a9d42f2335e0f921f1e313ad3c1b7178d206d",
        "917d3c470db999d32a312f8542149be91c7cbac61ee8fb4b67ae3d82b79ce21f",
        gated=True,
    ),
}


WEIGHTS = "model.safetensors"
"""The file of weights in a repository of the hub."""


class Dinov2Hash(ImageHash):
    """The paper's hash: frozen patch features, mean and deviation, a trained head."""

    input_size = (SIZE, SIZE)
    folder: Path

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self.folder = folder or cache_folder() / name
        card = self.folder / "head.json"
        if not card.exists():
            raise MissingModelError(
                f"there is no trained head for {name!r} in {self.folder}: "
                f"train one with 'coverlock train hash --backbone {name} PHOTOS --run RUN'"
            )
        try:
            measured = Document.parsed(read_file(card)).document("calibration")
            self.calibration = Calibration(measured.number("scale"), measured.number("power"))
        except DocumentError as error:
            raise CorruptModelError(f"{card} does not describe a head ({error})") from None

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, 224, 224)."""
        import torch

        with torch.inference_mode():
            logits: Logits = self.network(torch.from_numpy(np.ascontiguousarray(images))).numpy()
        return logits

    def differentiable(self) -> Differentiable:
        """The same hash with gradients."""
        import torch

        def differentiated(images: Images) -> tuple[Logits, Gradient]:
            seen = torch.from_numpy(np.ascontiguousarray(images)).requires_grad_()
            logits = self.network(seen)

            def gradient(weights: Logits) -> Images:
                [found] = torch.autograd.grad(logits, seen, torch.from_numpy(weights))
                of_images: Images = found.numpy()
                return of_images

            return logits.detach().numpy(), gradient

        return differentiated

    @cached_property
    def network(self) -> HashNetwork:
        """Backbone and head as a PyTorch module."""
        from safetensors.torch import load_file

        from coverlock_sdk.hashing.network import HashNetwork

        network = HashNetwork(load_backbone(self.name, self.folder))
        network.head.load_state_dict(load_file(self.folder / "head.safetensors"))
        return network.eval()

    def module(self) -> HashNetwork:
        """The network with its positions interpolated once and for all.

        They depend on the picture's size only, which is fixed, and exporters stumble over them.
        """
        import torch

        embeddings: Any = self.network.backbone.get_submodule("model.embeddings")
        patches = (SIZE // embeddings.patch_size) ** 2
        tokens = torch.empty(1, 1 + patches, embeddings.position_embeddings.shape[-1])
        with torch.no_grad():
            positions = embeddings.interpolate_pos_encoding(tokens, SIZE, SIZE)
        embeddings.position_embeddings = torch.nn.Parameter(positions, requires_grad=False)
        return self.network


def load_backbone(name: str, folder: Path | None = None) -> Backbone:
    """The frozen backbone of ``name``, from ``folder`` or where fetched models live."""
    folder = folder or cache_folder() / name
    if not (folder / "config.json").exists():
        raise MissingModelError(
            f"the weights of {name!r} are not in {folder}: get them with 'coverlock fetch {name}', "
            f"or convert an original file with 'coverlock import {name} FILE'"
        )
    require_recorded(folder, f"remove it and run 'coverlock fetch {name}'")
    model, problems = _transformers().Dinov2Model.from_pretrained(folder, output_loading_info=True)
    missing = sorted(problems["missing_keys"])
    if missing:
        raise CorruptModelError(f"{folder} does not hold all of {name!r}: {missing[0]} is missing")
    return as_backbone(model)


@dataclass(frozen=True)
class HubModel:
    """A backbone on the Hugging Face hub, for ``coverlock fetch``."""

    name: str

    @property
    def description(self) -> str:
        """What it is and under which licence."""
        return f"{VARIANTS[self.name].repository} from the Hugging Face hub (Apache-2.0)"

    @property
    def is_present(self) -> bool:
        """Whether it has been fetched already."""
        return (cache_folder() / self.name / "config.json").exists()

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download it into the models folder; the hub's client shows progress by itself."""
        folder, variant = cache_folder() / self.name, VARIANTS[self.name]
        repository, revision = variant.repository, variant.revision
        if self.is_present:
            return folder
        try:
            transformers = _transformers()
            if variant.sha256:
                from huggingface_hub import hf_hub_download

                weights = Path(hf_hub_download(repository, WEIGHTS, revision=revision))
                require_digests(weights.parent, {WEIGHTS: variant.sha256}, "fetch it again")
            model = transformers.Dinov2Model.from_pretrained(repository, revision=revision)
        except OSError as error:
            reason = str(error).splitlines()[0]
            raise MissingModelError(f"{repository} cannot be downloaded ({reason})") from error
        model.save_pretrained(folder)
        record_digests(folder)
        return folder


def install_head(name: str, run: Path, folder: Path | None = None) -> Path:
    """Put the head that a training run wrote beside its backbone, where the hash looks for it."""
    folder = folder or cache_folder() / name
    for suffix in ("safetensors", "json"):
        (folder / f"head.{suffix}").write_bytes((run / f"hash.{suffix}").read_bytes())
    return folder


def as_backbone(model: Any) -> Backbone:
    """A transformers DINOv2 as the frozen backbone of a hash."""
    from coverlock_sdk.hashing.network import FrozenBackbone

    class Dinov2Backbone(FrozenBackbone):
        def patches(self, images: Tensor) -> Tensor:
            """(N, 3, 224, 224) -> (N, 256, width), without the class token."""
            tokens: Tensor = self.model(images).last_hidden_state
            return tokens[:, 1:]

    settings = dict(model.config.to_diff_dict())
    return Dinov2Backbone(model, SIZE, int(model.config.hidden_size), settings)


def import_original(name: str, file: Path, folder: Path | None = None) -> Path:
    """Convert an original torch-hub file (``dinov2_vits14_pretrain.pth``, ...) to a hub folder."""
    from safetensors.torch import save_file

    from coverlock_sdk.models.checkpoints import read_checkpoint, require_match, require_weights

    folder, variant = folder or cache_folder() / name, VARIANTS[name]
    config = _transformers().Dinov2Config(
        hidden_size=variant.width,
        num_hidden_layers=variant.layers,
        num_attention_heads=variant.heads,
        use_swiglu_ffn=variant.gated,
        image_size=PATCHES * PATCH,
        patch_size=PATCH,
    )
    weights = require_weights(read_checkpoint(file), file)
    if "register_tokens" in weights:
        raise CorruptModelError(
            f"{file} has register tokens, but {name!r} has none: import the file without "
            "'_reg4' in its name"
        )
    require_match(weights, original_layout(variant), file, of=f"the weights of {name!r}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").unlink(missing_ok=True)  # written last, it says that all is there
    save_file(rename_original(weights), folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    record_digests(folder)
    return folder


def original_layout(variant: Variant) -> dict[str, Tensor]:
    """The tensors of an original file as names and shapes, on the meta device.

    They are written out, since transformers calls them differently from version to version.
    """
    import torch

    width, hidden = variant.width, 4 * variant.width
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, width),
        "mask_token": (1, width),
        "pos_embed": (1, 1 + PATCHES**2, width),
        "patch_embed.proj.weight": (width, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (width,),
        "norm.weight": (width,),
        "norm.bias": (width,),
    }
    linear = {"attn.qkv": (3 * width, width), "attn.proj": (width, width)}
    if variant.gated:
        hidden = -(-int(hidden * 2 / 3) // 8) * 8
        linear |= {"mlp.w12": (2 * hidden, width), "mlp.w3": (width, hidden)}
    else:
        linear |= {"mlp.fc1": (hidden, width), "mlp.fc2": (width, hidden)}
    for block in (f"blocks.{number}" for number in range(variant.layers)):
        for part in (1, 2):
            vectors = (f"norm{part}.weight", f"norm{part}.bias", f"ls{part}.gamma")
            shapes |= {f"{block}.{vector}": (width,) for vector in vectors}
        for layer, (outputs, inputs) in linear.items():
            shapes[f"{block}.{layer}.weight"] = (outputs, inputs)
            shapes[f"{block}.{layer}.bias"] = (outputs,)
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


_RENAMED = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^mask_token$", "embeddings.mask_token"),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^norm\.", "layernorm."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.attn\.proj\.", ".attention.output.dense."),
    (r"\.ls(\d)\.gamma$", r".layer_scale\1.lambda1"),
    (r"\.mlp\.w12\.", ".mlp.weights_in."),
    (r"\.mlp\.w3\.", ".mlp.weights_out."),
)


def rename_original(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of an original DINOv2 file under the names used on the Hugging Face hub.

    Queries, keys and values are one matrix there and three here.
    """
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        for pattern, replacement in _RENAMED:
            name = re.sub(pattern, replacement, name)
        if ".attn.qkv." in name:
            for part, piece in zip(("query", "key", "value"), value.chunk(3), strict=True):
                key = name.replace(".attn.qkv.", f".attention.attention.{part}.")
                renamed[key] = piece.contiguous()
        else:
            renamed[name] = value.contiguous()
    return renamed


def _transformers() -> Any:
    with needs("DINOv2", "PyTorch and transformers", "torch,dinov2"):
        import transformers
    return transformers
