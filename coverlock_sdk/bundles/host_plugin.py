"""Watermarks that are not networks: a bundle names the plugin that decodes on the host.

The bundle holds the graph of the hash, and never code. The plugin must be installed where pictures
are verified, in the version that was exported, and must decode a test picture as it did then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_sdk.arrays import Pixels
from coverlock_sdk.contract import Watermark
from coverlock_sdk.documents import Document
from coverlock_sdk.errors import BundleError, UnknownNameError
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.plugin_manager import plugin_manager

PROBE_SIDE = 256

TOLERANCE = 1e-3
"""How far logits of the test picture may be off, relative to the largest: float rounding."""


@dataclass(frozen=True)
class HostPlugin:
    """Which plugin decodes, as a manifest pins it."""

    distribution: str
    version: str
    probe: tuple[float, ...]
    """What it decoded from the test picture at export."""

    @classmethod
    def of(cls, watermark: Watermark) -> HostPlugin:
        """The plugin that ``watermark`` comes from; it must be an installed package."""
        installed = plugin_manager().provider("watermark", watermark.name)
        name, _, version = installed.rpartition(" ")
        if not name or not version[0].isdigit():
            raise BundleError(
                f"the watermark '{watermark.name}' is no network and comes from {installed}: a "
                "bundle can only name an installed package, so make it a plugin"
            )
        return cls(name, version, _probed(watermark))

    @classmethod
    def parsed(cls, document: Document) -> HostPlugin:
        """From a manifest."""
        probe: tuple[float, ...] = tuple(document.numbers("probe"))
        return cls(document.text("distribution"), document.text("version"), probe)

    def open(self, name: str, given: str | Watermark | None = None) -> Watermark:
        """The watermark ``name`` as installed here, or as ``given`` with its options.

        Another version is refused, and so is a plugin that decodes the test picture differently.
        """
        wanted = f"{self.distribution} {self.version}"
        try:
            watermark = load_watermark(name if given is None else given)
            installed = plugin_manager().provider("watermark", name)
        except UnknownNameError:
            raise BundleError(
                f"the watermark '{name}' decodes on this machine, and its plugin is missing: "
                f"pip install '{self.distribution}=={self.version}'"
            ) from None
        if installed != wanted or watermark.name != name:
            raise BundleError(
                f"the bundle was exported with '{name}' of {wanted}, and here is "
                f"'{watermark.name}' of {installed}: install that version, or export again"
            )
        found = np.array(_probed(watermark))
        if found.shape != (len(self.probe),) or not np.allclose(
            found, self.probe, rtol=0, atol=TOLERANCE * max(1.0, np.abs(self.probe).max())
        ):
            raise BundleError(
                f"'{name}' decodes a test picture differently than when the bundle was exported: "
                "a package that it uses has changed, or it needs the options of the export "
                "(Verifier.open(..., watermark=...))"
            )
        return watermark


def _probed(watermark: Watermark) -> tuple[float, ...]:
    networks = Networks(watermark, None)
    [logits] = networks.decoded(networks.views([Picture(_test_picture())]))
    return tuple(round(float(value), 6) for value in logits)


def _test_picture() -> Pixels:
    """A slope with noise on it, the same on every machine."""
    noise = np.random.RandomState(0).randint(-24, 25, (PROBE_SIDE, PROBE_SIDE, 3))
    slope = np.add.outer(np.arange(PROBE_SIDE), np.arange(PROBE_SIDE)) // 3 + 40
    return np.clip(slope[..., None] + noise, 0, 255).astype(np.uint8)
