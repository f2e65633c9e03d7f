"""A trained network as a watermark of the contract: NumPy at the door, PyTorch inside."""

from __future__ import annotations

import json
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import MissingModelError, needs
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.models.assets import cache_folder

if TYPE_CHECKING:
    import torch

    from coverlock_sdk.watermarking.network import WatermarkNetwork

CHUNK = 8
"""Pictures that go through a network at once, which bounds the memory it takes."""


class NetworkWatermark(Watermark):
    """A watermark around a network that is already there, for instance one just trained."""

    def __init__(self, network: WatermarkNetwork, name: str, card: dict[str, Any]) -> None:
        self._network = network.eval()
        self.name, self.bits = name, network.bits
        self.native_size = (network.size, network.size)
        self.card = card
        """How the weights came to be, as their training wrote it down."""
        self.calibration = Calibration(**card.get("calibration", {}))

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Run the encoder."""
        import torch

        marked = np.empty_like(images)
        with torch.inference_mode():
            for rows in _chunks(len(images)):
                covers = torch.from_numpy(images[rows])
                messages = torch.from_numpy(payloads[rows]).float()
                marked[rows] = self._network.encode(covers, messages).clamp(0, 1).numpy()
        return marked

    def decode(self, images: Images) -> Logits:
        """Run the decoder."""
        import torch

        logits = np.empty((len(images), self.bits), np.float32)
        with torch.inference_mode():
            for rows in _chunks(len(images)):
                logits[rows] = self._network.decode(torch.from_numpy(images[rows])).numpy()
        return logits

    def encoder_module(self) -> torch.nn.Module:
        """The encoder in PyTorch: (pictures, payloads) to marked pictures."""
        from coverlock_sdk.watermarking.network import Encoder

        return Encoder(self._network).eval()

    def decoder_module(self) -> torch.nn.Module:
        """The decoder in PyTorch: pictures to logits."""
        from coverlock_sdk.watermarking.network import Decoder

        return Decoder(self._network).eval()


class StoredWatermark(NetworkWatermark):
    """A watermark in a weight file; a card of the same name beside it holds its calibration.

    A subclass has a ``name``, says where its ``reference`` weights are and how its network is
    built; ``weights`` names another file, for instance one of your own training.
    """

    name: str
    reference: Path

    def __init__(self, weights: str | Path | None = None) -> None:
        with needs(f"the watermark '{self.name}'", "PyTorch", "torch"):
            from coverlock_sdk.watermarking.weights import load_network
        path = Path(weights) if weights is not None else self._default_weights()
        super().__init__(load_network(path, self.build), self.name, card_of(path))

    @staticmethod
    @abstractmethod
    def build(**settings: Any) -> WatermarkNetwork:
        """The network of these settings, untrained."""

    def _default_weights(self) -> Path:
        return self.reference


class ImportedWatermark(StoredWatermark):
    """The published weights of a system, which ``coverlock import`` has converted."""

    system: str
    """The name under which the converter is registered."""

    def _default_weights(self) -> Path:
        path = imported_weights(self.system)
        if not path.exists():
            raise MissingModelError(
                f"the published weights of '{self.system}' are not on this machine: "
                f"coverlock import {self.system} CHECKPOINT"
            )
        return path


def imported_weights(system: str) -> Path:
    """Where ``coverlock import`` puts the published weights of a system."""
    return cache_folder() / system / "published.safetensors"


def card_of(weights: Path) -> dict[str, Any]:
    """What was written down about a weight file beside it; empty where nothing was."""
    card = weights.with_suffix(".json")
    content: dict[str, Any] = json.loads(card.read_text()) if card.exists() else {}
    return content


def _chunks(count: int) -> list[slice]:
    return [slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
