"""A plugin that decodes on the host, beside the graph of the hash."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from coverlock_sdk.arrays import Logits
from coverlock_sdk.bundles.bundle import Manifest
from coverlock_sdk.contract import Watermark
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.plugin_calls import Networks


class HostDecoder:
    """Decodes 8-bit pictures with a plugin, one call at a time: nothing promises more of it."""

    def __init__(self, watermark: Watermark) -> None:
        self.watermark = watermark
        self._networks = Networks(watermark, None)
        self._turn = threading.Lock()

    def decode(self, pictures: Sequence[Picture]) -> Logits:
        """Logits (N, bits) of pictures at the watermark's size, or at their own."""
        seen = [Picture(picture.to_bytes(self.watermark.native_size)) for picture in pictures]
        with self._turn:
            return self._networks.decoded(self._networks.views(seen))


def open_decoder(manifest: Manifest, watermark: Watermark | None) -> HostDecoder | None:
    """The plugin that a manifest names, or ``watermark``, which is that plugin with options."""
    if manifest.plugin is None:
        return None
    return HostDecoder(manifest.plugin.open(manifest.watermark, watermark))
