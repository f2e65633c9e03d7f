"""Content credentials the usual way: a watermark that is not locked, and nothing beside it.

What the lock is compared with. The manifest has one soft binding, and whoever finds its value in a
picture gets the manifest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_sdk import load_watermark
from coverlock_sdk.images.codecs import encode_image, load_image
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.coverlock import NoDefense
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.provenance.alterations import thumbnail_of
from coverlock_sdk.provenance.credentials import Credentials
from coverlock_sdk.provenance.manifests import (
    HARD_BINDINGS,
    Draft,
    Manifest,
    read_store,
    sign_picture,
)
from coverlock_sdk.provenance.soft_bindings import soft_binding

ALGORITHM = "com.example.watermark"


class UnlockedVendor:
    """Marks, signs and resolves pictures without a lock."""

    def __init__(self, watermark: str, credentials: Credentials, fpr: float) -> None:
        self.mark: LockedWatermark = NoDefense(fpr=fpr).protect(load_watermark(watermark))
        self._credentials = credentials
        self._stores: dict[str, bytes] = {}

    def sign(self, photo: Path, identifier: str) -> bytes:
        """The photo with a mark and a manifest, as a PNG file."""
        original = load_image(photo).convert("RGB")
        content = encode_image(self.mark.embed(original, identifier), ".png")
        draft = Draft(
            title=photo.name,
            soft_bindings=[soft_binding(ALGORITHM, identifier.encode())],
            thumbnail=thumbnail_of(read(content)),
            parent=photo.read_bytes(),
            parent_type="image/jpeg" if photo.suffix.lower() in (".jpg", ".jpeg") else "image/png",
        )
        signed, store = sign_picture(content, "image/png", draft, self._credentials)
        self._stores[identifier] = store
        return signed

    def resolve(self, picture: Any) -> Manifest | None:
        """The manifest that the mark in a picture names, if it is valid."""
        found = self.mark.identify(picture, list(self._stores))
        if not found:
            return None
        manifest = read_store(self._stores[found.label])
        return None if manifest.problem(expected=HARD_BINDINGS) else manifest
