"""Signs C2PA manifests into pictures, and reads them back with everything that is wrong with them.

Only this module uses the C2PA library. It never uses the network, neither for remote manifests nor
for revocations.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_plugins.content_credentials.credentials import Credentials
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings
from coverlock_sdk.errors import needs
from coverlock_sdk.images.codecs import encode_image, load_image
from coverlock_sdk.images.conversion import read

MEDIA_TYPES = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
}
"""Files that hold a manifest, by suffix."""

PARENT_TYPES = {**MEDIA_TYPES, ".heic": "image/heic", ".heif": "image/heif", ".avif": "image/avif"}
"""Files whose manifest can become part of the history."""

STORE_TYPE = "application/c2pa"
THUMBNAIL, THUMBNAIL_SIDE = "thumbnail.jpg", 256
PARENT = "parent"

UNTRUSTED = "signingCredential.untrusted"
TRUSTED = "signingCredential.trusted"
HARD_BINDINGS = frozenset(
    {"assertion.dataHash.mismatch", "assertion.boxesHash.mismatch", "assertion.bmffHash.mismatch"}
)
"""Checks that fail if a picture is not, byte for byte, the one that was signed."""

_PROBLEMS = {
    **dict.fromkeys(
        HARD_BINDINGS, "it was made for another picture, or the file was changed since"
    ),
    UNTRUSTED: "it is signed by an unknown signer",
    "signingCredential.expired": "the signer's certificate has expired",
    "signingCredential.invalid": "the signer's certificate is not fit for signing",
    "claimSignature.mismatch": "its signature does not fit its content",
    "assertion.hashedURI.mismatch": "its content was altered",
}


@dataclass(frozen=True)
class SignedManifest:
    """A manifest that was read: what it says, and what is wrong with it."""

    id: str
    """Its label, such as ``urn:c2pa:...``."""
    content: dict[str, Any]
    """The active manifest, as C2PA's tools show it."""
    failures: tuple[str, ...]
    """C2PA's codes for the failed checks of the active manifest."""
    trusted: bool
    """Whether the signer's chain leads to a trusted certificate."""

    @property
    def signer(self) -> str:
        """The signer's name, from their certificate."""
        about = self.content.get("signature_info", {})
        return str(about.get("common_name") or about.get("issuer") or "unknown")

    def problem(self, expected: frozenset[str] = frozenset()) -> str | None:
        """What is wrong with it, in a sentence, except checks that are ``expected`` to fail."""
        wrong = [code for code in self.failures if code not in expected]
        if not wrong:
            return None
        return f"the manifest {self.id} cannot be used: {_PROBLEMS.get(wrong[0], wrong[0])}"


def sign_picture(
    picture: bytes,
    media_type: str,
    original: Path,
    bindings: SoftBindings,
    credentials: Credentials,
) -> tuple[bytes, bytes]:
    """The signed picture file, and the manifest store inside it.

    The manifest of the ``original`` file, if any, becomes part of the history.
    """
    c2pa = _c2pa()
    content, parent_type = original.read_bytes(), PARENT_TYPES.get(original.suffix.lower())
    if parent_type is None:  # C2PA does not know the format, so it gets the pixels
        content, parent_type = encode_image(load_image(original), ".png"), MEDIA_TYPES[".png"]
    signed = io.BytesIO()
    with _explained("the picture cannot be signed"):
        info = c2pa.C2paSignerInfo(credentials.algorithm, credentials.chain, credentials.key, None)
        builder = c2pa.Builder(_definition(original.name, bindings), _context(None))
        builder.add_resource(THUMBNAIL, io.BytesIO(_thumbnail(picture)))
        parent = {"title": original.name, "relationship": "parentOf", "label": PARENT}
        builder.add_ingredient(parent, parent_type, io.BytesIO(content))
        with c2pa.Signer.from_info(info) as signer:
            store = builder.sign(signer, media_type, io.BytesIO(picture), signed)
    return signed.getvalue(), store


def read_embedded(picture: bytes, trust: bytes | None = None) -> SignedManifest | None:
    """The manifest inside a picture file, if there is one.

    ``trust`` holds the certificates of trusted signers, in PEM format. It is None only for
    manifests that this process has just signed.
    """
    errors = _c2pa().C2paError
    with _explained("the manifest in the picture cannot be read"):
        try:
            return _read(None, picture, trust)
        except (errors.ManifestNotFound, errors.NotSupported):
            return None


def read_store(store: bytes, trust: bytes) -> SignedManifest:
    """The active manifest of a manifest store without its picture."""
    with _explained("the manifest store cannot be read"):
        return _read(STORE_TYPE, store, trust)


def _definition(title: str, bindings: SoftBindings) -> dict[str, Any]:
    actions = [
        {"action": "c2pa.opened", "parameters": {"ingredientIds": [PARENT]}},
        {"action": "c2pa.watermarked"},
    ]
    return {
        "claim_generator_info": [
            {"name": "coverlock-sdk", "version": metadata.version("coverlock-sdk")}
        ],
        "title": title,
        "thumbnail": {"format": "image/jpeg", "identifier": THUMBNAIL},
        "assertions": [
            {"label": "c2pa.actions.v2", "data": {"actions": actions}},
            *bindings.assertions(),
        ],
    }


def _thumbnail(picture: bytes) -> bytes:
    """A small JPEG of a picture file."""
    from PIL import Image

    image = Image.fromarray(read(picture).to_bytes())
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=90)
    return file.getvalue()


def _read(media_type: str | None, content: bytes, trust: bytes | None) -> SignedManifest:
    with _c2pa().Reader(media_type, io.BytesIO(content), None, _context(trust)) as reader:
        document = json.loads(reader.json())
    found = document["validation_results"]["activeManifest"]
    failures = [entry["code"] for entry in found["failure"]]
    return SignedManifest(
        id=document["active_manifest"],
        content=document["manifests"][document["active_manifest"]],
        failures=tuple(code for code in failures if trust is not None or code != UNTRUSTED),
        trusted=TRUSTED in {entry["code"] for entry in found["success"]},
    )


@lru_cache(maxsize=8)
def _context(trust: bytes | None) -> Any:
    """The library's settings: no network, no thumbnails of its own, and the trusted signers."""
    settings: dict[str, Any] = {
        "verify": {"remote_manifest_fetch": False, "ocsp_fetch": False},
        "builder": {"thumbnail": {"enabled": False}},
    }
    if trust is not None:
        settings["verify"]["verify_trust"] = True
        settings["trust"] = {"trust_anchors": trust.decode(errors="replace")}
    return _c2pa().Context.from_dict(settings)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except _c2pa().C2paError as error:
        reason = " ".join(str(error).split())
        raise ProvenanceError(f"{what} ({reason})") from error


def _c2pa() -> Any:
    with needs("content credentials", "c2pa-python", "c2pa"):
        import c2pa
    return c2pa
