"""``nano``: the first hash that shipped, for photos; what was marked under it stays verifiable."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from coverlock_sdk.contract import Differentiable
from coverlock_sdk.hashing.gradients import differentiated, normalised
from coverlock_sdk.hashing.windowed import WindowedHash

if TYPE_CHECKING:
    from coverlock_sdk.hashing.network import HashNetwork


class NanoHash(WindowedHash):
    """A residual CNN with the paper's head, trained end to end; see docs/hashes.md."""

    name = "nano"

    def differentiable(self) -> Differentiable:
        """The same hash with gradients, in NumPy."""
        return partial(differentiated, self.built(), normalised)

    def network(self, **settings: Any) -> HashNetwork:
        """The untrained network in PyTorch."""
        from coverlock_sdk.hashing.network import HashNetwork, NanoBackbone

        return HashNetwork(NanoBackbone(**settings))
