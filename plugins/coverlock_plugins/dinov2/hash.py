"""The hash of each size of DINOv2, and where its backbone and its head are.

Backbones do not ship with the package. A folder per hash holds them, inside ``COVERLOCK_MODELS`` or
the user's cache folder:

    dinov2-s/model.safetensors              from ``coverlock fetch`` or ``coverlock import``
    dinov2-s/head.safetensors, head.json    made by ``coverlock train hash``

A head of your own goes before one that ships.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk import Calibration, CoverLockError, ImageHash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient
from coverlock_sdk.documents import DocumentError, parsed, read_file
from coverlock_sdk.errors import CorruptModelError, MissingModelError, needs
from coverlock_sdk.files import write_atomically
from coverlock_sdk.models.assets import cache_folder, require_recorded, writing_to

if TYPE_CHECKING:
    from coverlock_plugins.dinov2.head import Backbone, HashNetwork
    from coverlock_plugins.dinov2.network import Dinov2

SIZE = 224
"""Side of the picture that the backbone sees: a grid of 16 x 16 patches of 14 pixels."""

WEIGHTS = "model.safetensors"
"""The file of weights, here and on the Hugging Face hub."""

HEAD = "head.safetensors"
"""The file of a head, with its card beside it."""

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class Variant:
    """One size of DINOv2: where it is published, and its shape."""

    repository: str
    width: int
    layers: int
    heads: int
    revision: str
    """The commit of the repository that is fetched, whatever is there later."""
    sha256: str
    """Of its weights at that commit."""
    gated: bool = False
    """The giant's feed-forward layers are SwiGLU."""

    @property
    def shape(self) -> dict[str, Any]:
        """What it takes to build the network."""
        return {
            "width": self.width,
            "layers": self.layers,
            "heads": self.heads,
            "gated": self.gated,
        }

    def network(self, side: int) -> Dinov2:
        """The network for pictures of ``side`` patches, without memory for its weights."""
        import torch

        from coverlock_plugins.dinov2.network import Dinov2

        with torch.device("meta"):
            return Dinov2(**self.shape, side=side)


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
        "facebook/dinov2-base",
        768,
        12,
        12,
        "f9e44c814b77203eaa57a6bdbbd535f21ede1415",
        "d73036b56966966d07975d696bde331762f37297e2f095de8cea0040c3aa0841",
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


@dataclass(frozen=True)
class Card:
    """What the card of a head says, as far as the hash needs it."""

    calibration: Calibration


class Dinov2Hash(ImageHash):
    """The paper's hash: frozen patch features, mean and deviation, a trained head."""

    input_size = (SIZE, SIZE)

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self.folder = folder or cache_folder() / name
        self._head = find_head(name, self.folder)
        card = self._head.with_suffix(".json")
        try:
            self.calibration = parsed(read_file(card), Card).calibration
        except DocumentError as error:
            raise CorruptModelError(f"{card} does not describe a head ({error})") from None
        require_weights(name, self.folder)

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, 224, 224)."""
        import torch

        with torch.inference_mode():
            return self.network(torch.from_numpy(np.ascontiguousarray(images))).numpy()

    def differentiable(self) -> Differentiable:
        """The same hash with gradients."""
        import torch

        def differentiated(images: Images) -> tuple[Logits, Gradient]:
            seen = torch.from_numpy(np.ascontiguousarray(images)).requires_grad_()
            logits = self.network(seen)

            def gradient(weights: Logits) -> Images:
                along = torch.from_numpy(weights)
                [found] = torch.autograd.grad(logits, seen, along, retain_graph=True)
                return found.numpy()

            return logits.detach().numpy(), gradient

        return differentiated

    @cached_property
    def network(self) -> HashNetwork:
        """Backbone and head as a PyTorch module.

        Parameters that are made in inference mode can never take part in gradients, so they are
        made outside of it, whoever asks first.
        """
        import torch

        from coverlock_plugins.dinov2.head import HashNetwork
        from coverlock_sdk.models.checkpoints import read_weights, require_match

        with torch.inference_mode(False):
            network = HashNetwork(load_backbone(self.name, self.folder))
            of = f"the head of {self.name!r}"
            _, state = read_weights(self._head, of)
            require_match(state, network.head.state_dict(), self._head, of)
            network.head.load_state_dict(state)
            return network.eval()

    def module(self) -> HashNetwork:
        """The same network, for export."""
        return self.network


def load_backbone(name: str, folder: Path | None = None) -> Backbone:
    """The frozen backbone of ``name``, from ``folder`` or where fetched models live."""
    folder, variant = folder or cache_folder() / name, VARIANTS[name]
    require_weights(name, folder)
    require_recorded(folder, f"remove it and run 'coverlock fetch {name}'")
    with needs("DINOv2", "PyTorch", "torch"):
        from coverlock_plugins.dinov2.network import (
            GRID,
            PATCH,
            Dinov2Backbone,
            resize_positions,
        )
        from coverlock_sdk.models.checkpoints import read_weights, require_match

    of = f"the weights of {name!r}"
    _, state = read_weights(folder / WEIGHTS, of)
    require_match(state, variant.network(GRID).state_dict(), folder / WEIGHTS, of)
    side = SIZE // PATCH
    state["pos_embed"] = resize_positions(state["pos_embed"], side)
    network = variant.network(side)
    network.load_state_dict(state, assign=True)
    return Dinov2Backbone(network, SIZE, variant.shape)


def require_weights(name: str, folder: Path) -> None:
    """Raise an error that names the command if the backbone of ``name`` is not in ``folder``."""
    if not (folder / WEIGHTS).exists():
        raise MissingModelError(
            f"the weights of {name!r} are not in {folder}: get them with 'coverlock fetch {name}', "
            f"or convert an original file with 'coverlock import {name} FILE'"
        )


def find_head(name: str, folder: Path) -> Path:
    """The head of ``name``: one in ``folder``, else one that ships."""
    for head in (folder / HEAD, SHIPPED / f"{name}-{HEAD}"):
        if head.with_suffix(".json").exists():
            return head
    raise MissingModelError(
        f"there is no trained head for {name!r} in {folder}: "
        f"train one with 'coverlock train hash --backbone {name} PHOTOS --run RUN'"
    )


def require_room(name: str, replace: bool) -> Path:
    """Where a head of ``name`` is installed, if none is there or it may be replaced."""
    head = cache_folder() / name / HEAD
    if head.exists() and not replace:
        raise CoverLockError(f"{head} is there already: give --replace to put another in its place")
    return head


def install_head(name: str, run: Path, replace: bool = False) -> Path:
    """Put the head that a training run wrote beside its backbone, where the hash looks first."""
    head = require_room(name, replace)
    with writing_to(head.parent):
        for suffix in (".safetensors", ".json"):
            written = (run / f"hash{suffix}").read_bytes()
            write_atomically(head.with_suffix(suffix), written)
    return head
