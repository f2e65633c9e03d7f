"""A trained network as a watermark of the contract: NumPy outside, PyTorch inside."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import Watermark
from coverlock_sdk.documents import DocumentError, parsed, read_file
from coverlock_sdk.errors import CorruptModelError, MissingModelError, needs
from coverlock_sdk.models.assets import cache_folder

if TYPE_CHECKING:
    import torch

    from coverlock_plugins.networks.network import WatermarkNetwork


class NetworkWatermark(Watermark):
    """A watermark around a network that is already there, for instance one just trained."""

    def __init__(self, network: WatermarkNetwork, name: str, card: dict[str, Any]) -> None:
        from coverlock_plugins.networks.network import Decoder, Encoder

        self.network = network
        self._encoder, self._decoder = Encoder(network).eval(), Decoder(network).eval()
        self.name, self.bits = name, network.bits
        self.native_size = (network.size, network.size)
        self.card = card
        """How the weights came to be, as their training wrote it down."""
        self.calibration = Calibration(**card.get("calibration", {}))

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Run the encoder."""
        return run(self._encoder, images, payloads)

    def decode(self, images: Images) -> Logits:
        """Run the decoder."""
        return run(self._decoder, images)

    def encoder_module(self) -> torch.nn.Module:
        """The encoder in PyTorch: (pictures, payloads) to marked pictures."""
        return self._encoder

    def decoder_module(self) -> torch.nn.Module:
        """The decoder in PyTorch: pictures to logits."""
        return self._decoder


class StoredWatermark(NetworkWatermark):
    """A watermark in a weight file; a card of the same name beside it holds its calibration.

    A subclass has a ``name`` and builds its network. ``weights`` names a file of your own training.
    """

    name: str
    reference: Path | None = None
    """The weights that ship; None for those that ``coverlock import`` converts."""

    def __init__(self, weights: str | Path | None = None) -> None:
        with needs(f"the watermark '{self.name}'", "PyTorch", "torch"):
            from coverlock_plugins.networks.weights import load_network
        path = Path(weights or self.reference or self._imported())
        super().__init__(load_network(path, self.build), self.name, card_of(path))

    @staticmethod
    @abstractmethod
    def build(**settings: Any) -> WatermarkNetwork:
        """The network of these settings, untrained."""

    def _imported(self) -> Path:
        system = self.name.removesuffix("-published")
        path = imported_weights(system)
        if not path.exists():
            raise MissingModelError(
                f"the published weights of '{system}' are not on this machine: "
                f"coverlock import {system} CHECKPOINT"
            )
        return path


def imported_weights(system: str) -> Path:
    """Where ``coverlock import`` puts the published weights of a system."""
    return cache_folder() / system / "published.safetensors"


def card_of(weights: Path) -> dict[str, Any]:
    """What was written down about a weight file beside it; empty where nothing was."""
    card = weights.with_suffix(".json")
    if not card.exists():
        return {}
    try:
        return parsed(read_file(card), dict[str, Any])
    except DocumentError as error:
        raise CorruptModelError(f"{card} does not describe weights ({error})") from None


def run(module: torch.nn.Module, *batches: Images | Bits, rows: int = 8) -> Images:
    """What ``module`` makes of NumPy batches, ``rows`` at a time to bound the memory it takes."""
    import torch

    from coverlock_plugins.networks.network import in_chunks

    return in_chunks(module, *map(torch.from_numpy, batches), rows=rows).numpy()
