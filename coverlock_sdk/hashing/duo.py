"""``duo``: the networks of ``nano`` and ``keen`` together, read by matrices that were computed.

What one network loses to a distortion the other often keeps, so both together lose less on average.
Photos and pictures of templates are read in two ways, and a gate decides between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient
from coverlock_sdk.hashing import gradients
from coverlock_sdk.hashing.keen import KeenModel
from coverlock_sdk.hashing.shipped import shipped_weights
from coverlock_sdk.hashing.windowed import (
    EMBEDDING_LAYERS,
    Array,
    Model,
    WindowedHash,
    embedded,
    layer_normalised,
)

if TYPE_CHECKING:
    from coverlock_sdk.hashing.network import HashNetwork

EMBEDDING_SCOPE = "head.fine"
"""Where the layers of the embedding of ``keen`` are among the weights."""


@dataclass(frozen=True)
class DuoModel:
    """The networks of ``coverlock_sdk.hashing.duo_network``, for inference."""

    coarse: Model
    fine: KeenModel
    weights: dict[str, Array]

    @classmethod
    def build(cls, settings: dict[str, Any], weights: dict[str, Array]) -> DuoModel:
        """Each network from its part of the weights."""

        def part(name: str) -> dict[str, Array]:
            prefix = f"backbone.{name}."
            chosen = {k: value for k, value in weights.items() if k.startswith(prefix)}
            return {f"backbone.{k.removeprefix(prefix)}": value for k, value in chosen.items()}

        coarse = Model.build(settings["coarse"], part("coarse"))
        fine = KeenModel.build(settings["fine"], part("fine"))
        return cls(coarse, fine, weights)

    def __call__(self, images: Images) -> Logits:
        """Pictures (N, 3, H, W) in [0, 1] to hash logits (N, 256)."""
        coarse, fine = self.coarse.pooled(images), self.fine.pooled(images)
        features = np.concatenate([layer_normalised(coarse), layer_normalised(fine)], axis=1)
        photos = self.linear("photos", features)
        templates = self.linear("templates", embedded(self.weights, EMBEDDING_SCOPE, fine))
        logits: Logits = photos + _sigmoid(self.linear("gate", features)) * (templates - photos)
        return logits

    def linear(self, name: str, features: Array) -> Array:
        """What the head's layer ``name`` makes of features."""
        weight, bias = self.weights[f"head.{name}.weight"], self.weights[f"head.{name}.bias"]
        answer: Array = features @ weight.T + bias
        return answer


class DuoHash(WindowedHash):
    """Two residual CNNs, on average steadier on photos than either; see docs/hashes.md."""

    name = "duo"
    model = DuoModel

    @classmethod
    def weights(cls) -> dict[str, Array]:
        """Those of its head, which are its own, and of the two networks."""
        return {**borrowed(), **super().weights()}

    def differentiable(self) -> Differentiable:
        """The same hash with gradients, in NumPy."""
        return partial(differentiated, self.built())

    def network(self, **settings: Any) -> HashNetwork:
        """The untrained network in PyTorch."""
        from coverlock_sdk.hashing.duo_network import duo_network

        return duo_network(settings["coarse"], settings["fine"])


def borrowed() -> dict[str, Array]:
    """What ``nano`` and ``keen`` lend: their networks, and the embedding of ``keen``."""
    networks = {
        f"backbone.{place}.{key.removeprefix('backbone.')}": value
        for place, name in (("coarse", "nano"), ("fine", "keen"))
        for key, value in shipped_weights(name).items()
        if key.startswith("backbone.")
    }
    keen = shipped_weights("keen")
    embedding = {f"{EMBEDDING_SCOPE}.{layer}": keen[f"head.{layer}"] for layer in EMBEDDING_LAYERS}
    return {**networks, **embedding}


def differentiated(model: DuoModel, images: Images) -> tuple[Logits, Gradient]:
    """The logits (N, 256) of ``images``, and their gradient."""
    coarse, pull_coarse = gradients.pooled(model.coarse, gradients.normalised, images)
    fine, pull_fine = gradients.pooled(model.fine, gradients.normalised_and_evened, images)
    normal_coarse, pull_normal_coarse = gradients.layer_normalised(coarse)
    normal_fine, pull_normal_fine = gradients.layer_normalised(fine)
    embedding, pull_embedding = gradients.embedded(model.weights, EMBEDDING_SCOPE, fine)
    features = np.concatenate([normal_coarse, normal_fine], axis=1)
    photos, templates = model.linear("photos", features), model.linear("templates", embedding)
    gate = _sigmoid(model.linear("gate", features))
    weight = {
        name: model.weights[f"head.{name}.weight"] for name in ("photos", "templates", "gate")
    }

    def gradient(g: Logits) -> Images:
        of_gate = (g * (templates - photos)).sum(axis=1, keepdims=True) * gate * (1 - gate)
        of_features = ((1 - gate) * g) @ weight["photos"] + of_gate @ weight["gate"]
        of_coarse, of_fine = np.split(of_features, [coarse.shape[1]], axis=1)
        of_embedding = np.asarray((gate * g) @ weight["templates"], np.float32)
        total: Images = pull_coarse(pull_normal_coarse(of_coarse))
        return total + pull_fine(pull_normal_fine(of_fine) + pull_embedding(of_embedding))

    return photos + gate * (templates - photos), gradient


def _sigmoid(x: Array) -> Array:
    value: Array = (0.5 * (1 + np.tanh(0.5 * x))).astype(np.float32)
    return value
