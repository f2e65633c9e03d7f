"""Marking a picture with a serial, and signing a manifest that says so."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coverlock_plugins.content_credentials.alterations import thumbnail_of
from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.lookups import fingerprints
from coverlock_plugins.content_credentials.manifests import (
    MEDIA_TYPES,
    Draft,
    read_embedded,
    sign_picture,
)
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings
from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.images.codecs import encode_image, load_image, write_file
from coverlock_sdk.images.conversion import read

if TYPE_CHECKING:
    from coverlock_plugins.content_credentials.credentials import Credentials
    from coverlock_sdk.locking.locked_watermark import LockedWatermark

PARENT_TYPES = {**MEDIA_TYPES, ".heic": "image/heic", ".heif": "image/heif", ".avif": "image/avif"}
"""Files whose own manifest can become part of the history."""


@dataclass(frozen=True)
class Signed:
    """A signed picture and what is known about it."""

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
                "the repository must remember what is signed: open the lock with a key and with "
                "registry=repository.registry"
            )
        self.lock, self.repository, self.credentials = lock, repository, credentials
        self._hash = lock.hash

    def sign(self, source: Path, out: Path, serial: str) -> Signed:
        """Mark ``source`` with ``serial``, sign it, keep its manifest, and write ``out``.

        The manifest is kept first: a manifest without a picture does no harm, but a picture whose
        manifest is lost would never resolve.
        """
        if out.suffix.lower() not in MEDIA_TYPES:
            raise PictureError(f"{out} cannot hold a manifest: use one of {', '.join(MEDIA_TYPES)}")
        if self.repository.of_serial(serial) is not None:
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
        signed, store, payload = self._signed(source, content, out.suffix.lower(), serial)
        manifest = self.repository.add(store, payload, trust=None)
        write_file(out, signed)
        return Signed(out, serial, manifest.id, marked.psnr, marked.verdict.p_value)

    def _signed(
        self, source: Path, content: bytes, suffix: str, serial: str
    ) -> tuple[bytes, bytes, bytes]:
        """The signed file, its manifest store, and the payload that the decoder reads in it."""
        decoded, described = self.lock.logits([content])
        [fingerprint] = fingerprints(self._hash.code(described[0]))
        key = self.lock.lock.keys[0]
        parent, parent_type = _parent(source)
        bindings = SoftBindings(
            serial,
            self.lock.watermark_name,
            self._hash.name,
            key.fingerprint if key else None,
            fingerprint,
        )
        draft = Draft(
            title=source.name,
            soft_bindings=bindings.assertions(),
            thumbnail=thumbnail_of(read(content)),
            parent=parent,
            parent_type=parent_type,
        )
        signed, store = sign_picture(content, MEDIA_TYPES[suffix], draft, self.credentials)
        made = read_embedded(signed)
        problem = "the picture has no manifest after signing" if made is None else made.problem()
        if problem:
            raise ProvenanceError(problem)
        return signed, store, np.packbits(decoded[0] > 0).tobytes()


def _parent(source: Path) -> tuple[bytes, str]:
    """The original file, or its pixels where C2PA does not know the format."""
    if source.suffix.lower() in PARENT_TYPES:
        return source.read_bytes(), PARENT_TYPES[source.suffix.lower()]
    return encode_image(load_image(source), ".png"), MEDIA_TYPES[".png"]
