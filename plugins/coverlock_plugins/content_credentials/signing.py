"""Marks a picture with a serial, and signs a manifest that says so."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_plugins.content_credentials.manifests import MEDIA_TYPES, read_embedded, sign_picture
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings, fingerprint_of
from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.images.codecs import write_file

if TYPE_CHECKING:
    from coverlock_plugins.content_credentials.credentials import Credentials
    from coverlock_sdk import LockedWatermark


@dataclass(frozen=True)
class Signed:
    """A signed picture, its manifest and its verdict."""

    path: Path
    serial: str
    manifest: str
    """The label of its manifest."""
    psnr: float
    p_value: float


class PictureSigner:
    """Marks and signs pictures, and keeps their manifests in a repository."""

    def __init__(
        self, lock: LockedWatermark, repository: ManifestRepository, credentials: Credentials
    ) -> None:
        if lock.hash is None or lock.lock.registry is None:
            raise ProvenanceError(
                "the repository must remember signed pictures: open the lock with a key and with "
                "registry=repository.registry"
            )
        self.lock, self.repository, self.credentials = lock, repository, credentials
        self._hash = lock.hash

    def sign(self, source: Path, out: Path, serial: str) -> Signed:
        """Mark ``source`` with ``serial``, sign it, keep its manifest, and write ``out``.

        The manifest is stored first: a manifest without a picture does no harm, but a picture
        without its manifest would never resolve.
        """
        media_type = MEDIA_TYPES.get(out.suffix.lower())
        if media_type is None:
            raise PictureError(f"{out} cannot hold a manifest: use one of {', '.join(MEDIA_TYPES)}")
        if self.repository.entry("serial", serial) is not None:
            raise MessageError(f"the serial '{serial}' stands for another picture: use a new one")
        with tempfile.TemporaryDirectory() as folder:
            marked_file = Path(folder) / out.name
            marked = self.lock.mark_file(source, serial, marked_file)
            content = marked_file.read_bytes()
        if not marked.verdict:
            raise PictureError(
                f"{source} does not carry the mark well enough to be resolved ({marked.verdict}): "
                "use a larger picture, or one with more texture"
            )
        bindings, payload = self._bindings(serial, content)
        signed, store = sign_picture(content, media_type, source, bindings, self.credentials)
        manifest = read_embedded(signed)
        if manifest is None:
            raise ProvenanceError("the picture has no manifest after signing")
        if problem := manifest.problem():
            raise ProvenanceError(problem)
        self.repository.add(store, manifest.id, bindings, payload)
        write_file(out, signed)
        return Signed(out, serial, manifest.id, marked.psnr, marked.verdict.p_value)

    def _bindings(self, serial: str, content: bytes) -> tuple[SoftBindings, bytes]:
        """The soft bindings of a marked picture file, and its payload as the decoder reads it."""
        decoded, described = self.lock.logits([content])
        key = self.lock.lock.keys[0]
        bindings = SoftBindings(
            serial,
            self.lock.watermark_name,
            self._hash.name,
            key.fingerprint if key else None,
            fingerprint_of(self._hash.code(described[0])),
        )
        return bindings, np.packbits(decoded[0] > 0).tobytes()
