"""The hashes that ship: a residual CNN that sees a picture through windows, run by NumPy alone.

So every installation can compute them and there is one path to test; ``module`` hands the same
weights to PyTorch for training and export.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.shipped import shipped_card, shipped_weights
from coverlock_sdk.images.resampling import window_matrix
from coverlock_sdk.locking.calibration import Calibration

if TYPE_CHECKING:
    from coverlock_sdk.hashing.network import HashNetwork

Array = npt.NDArray[np.float32]
M = TypeVar("M", bound="Model")

TOGETHER = 16
"""Pictures that go through the network at once; more would only cost memory."""

EMBEDDING_LAYERS = tuple(
    f"{layer}.{part}" for layer in ("norm", "hidden", "output") for part in ("weight", "bias")
)

EPSILON = 1e-5
"""What PyTorch's normalisation layers add to a variance before dividing by its root."""


@dataclass(frozen=True)
class Convolution:
    """A convolution with its batch normalisation folded in, channels last."""

    kernel: Array  # (side * side * inputs, outputs)
    bias: Array
    side: int
    stride: int

    @classmethod
    def folded(cls, weights: dict[str, Array], name: str, norm: str, stride: int) -> Convolution:
        """The convolution ``name`` followed by the batch normalisation ``norm``."""
        kernel = weights[f"{name}.weight"]  # (outputs, inputs, side, side)
        scale = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + EPSILON)
        bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        outputs, side = len(kernel), kernel.shape[-1]
        rows = (kernel * scale[:, None, None, None]).transpose(2, 3, 1, 0).reshape(-1, outputs)
        return cls(np.ascontiguousarray(rows), bias, side, stride)

    def __call__(self, x: Array) -> Array:
        """(N, H, W, inputs) -> (N, H / stride, W / stride, outputs)."""
        margin = (self.side - self.stride + 1) // 2
        if margin:
            x = np.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (self.side, self.side), axis=(1, 2))
        windows = windows[:, :: self.stride, :: self.stride].transpose(0, 1, 2, 4, 5, 3)
        patches = windows.reshape(-1, len(self.kernel))  # one large product, not many small ones
        return (patches @ self.kernel + self.bias).reshape(*windows.shape[:3], -1)


@dataclass(frozen=True)
class Model:
    """The network of ``coverlock_sdk.hashing.network``, for inference; ``nano`` as it is."""

    windows: tuple[Array, ...]  # each (side, size)
    stages: tuple[tuple[Convolution, ...], ...]  # one convolution reduces, two are a residual
    weights: dict[str, Array]

    @classmethod
    def build(cls: type[M], settings: dict[str, Any], weights: dict[str, Array]) -> M:
        """Read the layers off the names of their weights."""
        size, side = settings["size"], settings["side"]
        windows = tuple(window_matrix(size, side, zoom) for zoom in settings["zooms"])
        stages: list[tuple[Convolution, ...]] = []
        layers = {int(name.split(".")[2]) for name in weights if name.startswith("backbone.body.")}
        for layer in sorted(layers):
            name = f"backbone.body.{layer}"
            if f"{name}.first.weight" in weights:
                pair = (f"{name}.first", f"{name}.second")
                stages.append(tuple(Convolution.folded(weights, c, f"{c}_norm", 1) for c in pair))
            elif f"{name}.running_var" not in weights:
                stride = 2 if stages else 4
                norm = f"backbone.body.{layer + 1}"
                stages.append((Convolution.folded(weights, name, norm, stride),))
        return cls(windows, tuple(stages), weights)

    def __call__(self, images: Images) -> Logits:
        """Pictures (N, 3, H, W) in [0, 1] to hash logits (N, 256)."""
        return self._head(self.pooled(images))

    def pooled(self, images: Images) -> Array:
        """Features (N, D), averaged over windows."""
        seen = [np.matmul(np.matmul(window, images), window.T) for window in self.windows]
        pooled = self._pool(np.concatenate(seen))
        mean: Array = pooled.reshape(len(seen), len(images), -1).mean(axis=0)
        return mean

    def _pool(self, views: Array) -> Array:
        """Mean, standard deviation and learned layouts: (N, 3, side, side) -> (N, features)."""
        x = self._see(views).transpose(0, 2, 3, 1)
        for stage in self.stages:
            if len(stage) == 1:
                x = np.maximum(stage[0](x), 0)
            else:
                first, second = stage
                x = np.maximum(x + second(np.maximum(first(x), 0)), 0)
        mean = x.mean(axis=(1, 2))
        deviation = np.sqrt(np.square(x - mean[:, None, None]).mean(axis=(1, 2)) + 1e-6)
        layout = self.weights["backbone.layout.weight"]  # (C * layouts, 1, g, g)
        layouts = layout.reshape(x.shape[-1], -1, *x.shape[1:3])
        kept = np.einsum("nhwc,clhw->ncl", x, layouts, optimize=True)
        return np.concatenate([mean, deviation, kept.reshape(len(x), -1)], axis=1)

    def _see(self, views: Array) -> Array:
        """What the network is given of each view: (N, 3, side, side) -> (N, C, side, side)."""
        return normalise(views)

    def _head(self, pooled: Array) -> Logits:
        """The paper's head: an embedding of unit length, its scale, and a fixed projection."""
        scale, projection = self.weights["head.log_scale"], self.weights["head.projection"]
        logits: Logits = np.exp(scale) * embedded(self.weights, "head", pooled) @ projection
        return logits


def embedded(weights: dict[str, Array], head: str, pooled: Array) -> Array:
    """The paper's embedding, by the layers below ``head``: LN, Linear, GELU, Linear, L2 norm."""
    w = {layer: weights[f"{head}.{layer}"] for layer in EMBEDDING_LAYERS}
    x: Array = layer_normalised(pooled) * w["norm.weight"] + w["norm.bias"]
    hidden: Array = x @ w["hidden.weight"].T + w["hidden.bias"]
    x = gelu(hidden)
    x = x @ w["output.weight"].T + w["output.bias"]
    embedding: Array = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return embedding


def layer_normalised(features: Array) -> Array:
    """Each row (N, D) with zero mean and unit variance."""
    centred = features - features.mean(axis=1, keepdims=True)
    variance = np.square(centred).mean(axis=1, keepdims=True)
    normal: Array = centred / np.sqrt(variance + EPSILON)
    return normal


def normalise(images: Images) -> Array:
    """Undo brightness and contrast, and squash the extremes, which they may have clipped."""
    centred = images - images.mean(axis=(1, 2, 3), keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=(1, 2, 3), keepdims=True) + np.float32(1e-4))
    x = centred / deviation
    return x / np.sqrt(1 + np.square(x))


def gelu(x: Array) -> Array:
    """x times the normal distribution function at x."""
    error = np.frompyfunc(math.erf, 1, 1)(x / math.sqrt(2)).astype(np.float32)
    return x * (1 + error) / 2


class WindowedHash(ImageHash):
    """A hash whose weights and card ship under its name."""

    model: ClassVar[type[Any]] = Model
    """What computes it: built from settings and weights, it turns pictures into logits."""

    def __init__(self) -> None:
        card = shipped_card(self.name)
        side = int(card["network"]["size"])
        self.input_size = (side, side)
        self.calibration = Calibration(**card["calibration"])

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, *input_size)."""
        model = self.built()
        starts = range(0, len(images), TOGETHER)
        return np.concatenate([model(images[start : start + TOGETHER]) for start in starts])

    def built(self) -> Any:
        """The network with its weights."""
        return _built(self.model.build, self.name, self.weights)

    @classmethod
    def weights(cls) -> dict[str, Array]:
        """All arrays of the network, by name."""
        return shipped_weights(cls.name)

    def module(self) -> HashNetwork:
        """The same hash in PyTorch: pictures (N, 3, *input_size) in [0, 1] to logits."""
        import torch

        module = self.network(**shipped_card(self.name)["network"])
        weights = self.weights().items()
        module.load_state_dict(
            {name: torch.from_numpy(value) for name, value in weights}, strict=False
        )
        return module.eval()

    @abstractmethod
    def network(self, **settings: Any) -> HashNetwork:
        """The untrained network in PyTorch."""


@lru_cache(maxsize=4)
def _built(build: Callable[..., Any], name: str, weights: Callable[[], dict[str, Array]]) -> Any:
    return build(shipped_card(name)["network"], weights())
