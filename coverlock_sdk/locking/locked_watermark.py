"""What ``wrap`` returns: a watermark locked to its pictures, which marks and verifies."""

from __future__ import annotations

from typing import Any

import numpy as np

from coverlock_sdk.arrays import Logits
from coverlock_sdk.contract import ProtectedWatermark, Watermark
from coverlock_sdk.frames import Frame
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.picture import Picture, put_back
from coverlock_sdk.locking.embedding import Binder
from coverlock_sdk.locking.picture_marker import PictureMarker
from coverlock_sdk.locking.picture_verifier import PictureVerifier

TOGETHER = 32
"""Number of pictures in memory at once, however many are passed in."""


class LockedWatermark(PictureMarker, PictureVerifier, ProtectedWatermark):
    """A watermark whose payload is bound to the picture by a hash; it marks and verifies."""

    def __init__(self, watermark: Watermark, binder: Binder) -> None:
        super().__init__(binder.lock, watermark.name)
        self.watermark = watermark
        self.hash = binder.lock.hash
        self.binder = binder

    def __repr__(self) -> str:
        return (
            f"LockedWatermark({self.watermark_name!r}, hash={self.hash_name!r}, "
            f"keyring={self.keyring!r}, fpr={self.fpr:g}, rule={self.lock.rule!r})"
        )

    @property
    def _seen_at(self) -> tuple[int, int] | None:
        return self.watermark.native_size

    def decode_placed(self, picture: Picture, frame: Frame) -> Logits:
        """The decoder logits of one picture, put back in its place in a frame."""
        networks = self.binder.networks
        there = put_back(picture, self.watermark.native_size, frame)
        decoded: Logits = networks.decoded(networks.views([there]))[0]
        return decoded

    def _logits(self, given: Given) -> tuple[Logits, Any]:
        parts = list(map(self.binder.logits, given.parts(TOGETHER))) or [self.binder.logits([])]
        decoded, described = zip(*parts, strict=True)
        return np.concatenate(decoded), np.concatenate(described)
