"""Gradients of the hashes that ship, in NumPy alone: hardening follows them on every installation.

Each function returns what a layer gives, and a function that carries gradients back through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Gradient
from coverlock_sdk.hashing.local_contrast import FLOOR, blur_matrix
from coverlock_sdk.hashing.windowed import (
    EMBEDDING_LAYERS,
    EPSILON,
    Array,
    Convolution,
    Model,
    gelu,
)

Pull = Callable[[Array], Array]
Step = tuple[Array, Pull]
See = Callable[[Array], Step]


def differentiated(model: Model, see: See, images: Images) -> tuple[Logits, Gradient]:
    """The logits (N, 256) of ``images``, and their gradient; ``see`` is what the model sees."""
    features, pull_features = pooled(model, see, images)
    embedding, pull_embedding = embedded(model.weights, "head", features)
    scale, projection = np.exp(model.weights["head.log_scale"]), model.weights["head.projection"]

    def gradient(weights: Logits) -> Images:
        return pull_features(pull_embedding(scale * weights @ projection.T))

    return scale * embedding @ projection, gradient


def pooled(model: Model, see: See, images: Images) -> Step:
    """Features (N, D), averaged over windows."""
    seen = [np.matmul(np.matmul(window, images), window.T) for window in model.windows]
    views, pull_see = see(np.concatenate(seen))
    maps, pull_body = _body(model, views)
    features, pull_pool = _pooled(model, maps)
    count = len(model.windows)

    def pull(g: Array) -> Array:
        each = np.tile(g / np.float32(count), (count, 1))
        of_seen = pull_see(pull_body(pull_pool(each)))
        parts = of_seen.reshape(count, len(images), *of_seen.shape[1:])
        total: Array = sum(w.T @ part @ w for w, part in zip(model.windows, parts, strict=True))
        return total

    return features.reshape(count, len(images), -1).mean(axis=0), pull


def normalised(views: Array) -> Step:
    """``coverlock_sdk.hashing.windowed.normalise``."""
    axes = (1, 2, 3)
    centred = views - views.mean(axis=axes, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + np.float32(1e-4))
    x = centred / deviation
    shrink = 1 / np.sqrt(1 + np.square(x))

    def pull(g: Array) -> Array:
        g = g * shrink**3 / deviation
        g = g - x * (g * x).mean(axis=axes, keepdims=True)
        return g - g.mean(axis=axes, keepdims=True)

    return x * shrink, pull


def normalised_and_evened(views: Array) -> Step:
    """Colour, and light with local contrast evened out, as ``keen`` sees them."""
    axes = (1, 2, 3)
    colour, pull_colour = normalised(views)
    blur = blur_matrix(views.shape[-1])
    centred = views - views.mean(axis=axes, keepdims=True)
    light = centred.mean(axis=1, keepdims=True)
    fine = light - blur @ light @ blur.T
    floor = np.float32(FLOOR**2)
    contrast = np.square(centred).mean(axis=axes, keepdims=True)
    energy = blur @ np.square(fine) @ blur.T + floor * contrast + np.float32(1e-5)
    evened = fine / np.sqrt(energy)
    shrink = 1 / np.sqrt(1 + np.square(evened))

    def pull(g: Array) -> Array:
        of_evened = g[:, 3:] * shrink**3
        of_energy = -0.5 * of_evened * evened / energy
        of_fine = of_evened / np.sqrt(energy) + 2 * fine * (blur.T @ of_energy @ blur)
        of_light = of_fine - blur.T @ of_fine @ blur
        of_contrast = floor * of_energy.sum(axis=axes, keepdims=True)
        spread = (of_light - of_light.mean(axis=axes, keepdims=True)) / 3
        return pull_colour(g[:, :3]) + spread + of_contrast * 2 * centred / centred[0].size

    return np.concatenate([colour, evened * shrink], axis=1), pull


def _body(model: Model, views: Array) -> Step:
    """The convolutions: (N, C, side, side) -> (N, grid, grid, channels)."""
    x, pulls = views.transpose(0, 2, 3, 1), []
    for stage in model.stages:
        x, pull = _reduction(stage[0], x) if len(stage) == 1 else _residual(stage[0], stage[1], x)
        pulls.append(pull)

    def pull_all(g: Array) -> Array:
        for pull in reversed(pulls):
            g = pull(g)
        return g.transpose(0, 3, 1, 2)

    return x, pull_all


def _reduction(convolution: Convolution, x: Array) -> Step:
    y = np.maximum(convolution(x), 0)
    return y, lambda g: _transposed(convolution, g * (y > 0), x.shape)


def _residual(first: Convolution, second: Convolution, x: Array) -> Step:
    hidden = np.maximum(first(x), 0)
    y = np.maximum(x + second(hidden), 0)

    def pull(g: Array) -> Array:
        g = g * (y > 0)
        inner = _transposed(second, g, hidden.shape) * (hidden > 0)
        return g + _transposed(first, inner, x.shape)

    return y, pull


def _transposed(convolution: Convolution, g: Array, shape: tuple[int, ...]) -> Array:
    """A gradient of what a convolution gives, as one of what it takes, of ``shape``."""
    side, stride = convolution.side, convolution.stride
    margin = (side - stride + 1) // 2
    count, rows, columns, outputs = g.shape
    spread = g.reshape(-1, outputs) @ convolution.kernel.T
    spread = spread.reshape(count, rows, columns, side, side, shape[3])
    padded = np.zeros((count, shape[1] + 2 * margin, shape[2] + 2 * margin, shape[3]), np.float32)
    for row in range(side):
        for column in range(side):
            down = slice(row, row + stride * rows, stride)
            across = slice(column, column + stride * columns, stride)
            padded[:, down, across] += spread[:, :, :, row, column]
    return padded[:, margin : margin + shape[1], margin : margin + shape[2]]


def _pooled(model: Model, x: Array) -> Step:
    """Mean, deviation and layouts of each feature: (N, grid, grid, channels) -> (N, features)."""
    places, channels = x.shape[1] * x.shape[2], x.shape[3]
    mean = x.mean(axis=(1, 2))
    centred = x - mean[:, None, None]
    deviation = np.sqrt(np.square(centred).mean(axis=(1, 2)) + np.float32(1e-6))
    layouts = model.weights["backbone.layout.weight"].reshape(channels, -1, *x.shape[1:3])
    kept = np.einsum("nhwc,clhw->ncl", x, layouts, optimize=True)

    def pull(g: Array) -> Array:
        of_mean, of_deviation, of_kept = np.split(g, [channels, 2 * channels], axis=1)
        through = of_mean[:, None, None] + centred * (of_deviation / deviation)[:, None, None]
        weighted = of_kept.reshape(len(g), channels, -1)
        return through / places + np.einsum("ncl,clhw->nhwc", weighted, layouts, optimize=True)

    return np.concatenate([mean, deviation, kept.reshape(len(x), -1)], axis=1), pull


def embedded(weights: dict[str, Array], head: str, features: Array) -> Step:
    """``coverlock_sdk.hashing.windowed.embedded``."""
    w = {layer: weights[f"{head}.{layer}"] for layer in EMBEDDING_LAYERS}
    normal, pull_normal = layer_normalised(features)
    scaled = normal * w["norm.weight"] + w["norm.bias"]
    hidden = np.asarray(scaled @ w["hidden.weight"].T + w["hidden.bias"], np.float32)
    x = gelu(hidden) @ w["output.weight"].T + w["output.bias"]
    length = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    embedding = x / length

    def pull(g: Array) -> Array:
        g = (g - embedding * (g * embedding).sum(axis=1, keepdims=True)) / length
        g = (g @ w["output.weight"]) * _gelu_slope(hidden)
        return pull_normal((g @ w["hidden.weight"]) * w["norm.weight"])

    return embedding, pull


def layer_normalised(features: Array) -> Step:
    """``coverlock_sdk.hashing.windowed.layer_normalised``."""
    centred = features - features.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + np.float32(EPSILON))
    normal = centred / spread

    def pull(g: Array) -> Array:
        g = g - g.mean(axis=1, keepdims=True) - normal * (g * normal).mean(axis=1, keepdims=True)
        return g / spread

    return normal, pull


def _gelu_slope(x: Array) -> Array:
    density = np.exp(-0.5 * np.square(x)) / np.float32(math.sqrt(2 * math.pi))
    below = np.where(x == 0, 0.5, gelu(x) / np.where(x == 0, 1, x))
    slope: Array = (below + x * density).astype(np.float32)
    return slope
