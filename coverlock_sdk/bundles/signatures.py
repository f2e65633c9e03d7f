"""Ed25519 signatures of manifests, as a verifier checks them: whose they are, and of what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_sdk.errors import BundleError, KeyringError, needs

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def check_signature(content: bytes, signature: bytes, trust: Any, folder: Path) -> None:
    """Refuse ``content`` unless the holder of the key ``trust`` signed exactly these bytes."""
    exceptions, _, _ = cryptography()
    try:
        _public_key(trust).verify(signature, content)
    except exceptions.InvalidSignature:
        raise BundleError(
            f"the signature of {folder} was not made by the trusted key for this manifest: "
            "the bundle was altered or signed by somebody else"
        ) from None


def cryptography() -> Any:
    """What the optional package offers: its exceptions, Ed25519, and how keys are stored."""
    with needs("signatures", "cryptography", "sign"):
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return exceptions, ed25519, serialization


def _public_key(trust: Any) -> Ed25519PublicKey:
    """What a caller may trust: a public key, or the path of its PEM file."""
    exceptions, ed25519, serialization = cryptography()
    if isinstance(trust, ed25519.Ed25519PublicKey):
        return trust
    if not isinstance(trust, str | os.PathLike):
        raise KeyringError(
            f"a {type(trust).__name__} is not a public key: give an Ed25519PublicKey or its file"
        )
    path = Path(trust)
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise KeyringError(f"{path} cannot be read ({error.strerror or error})") from None
    except (ValueError, exceptions.UnsupportedAlgorithm):
        raise KeyringError(f"{path} is not a public key in PEM format") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise KeyringError(f"{path} is not an Ed25519 key")
    return key
