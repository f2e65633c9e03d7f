"""Signing bundles, so that verifiers know who exported them and that nobody changed them since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from coverlock_sdk.bundles.bundle import MANIFEST, SIGNATURE, Bundle
from coverlock_sdk.bundles.signatures import cryptography
from coverlock_sdk.errors import BundleError, KeyringError
from coverlock_sdk.files import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PathLike = str | os.PathLike[str]


def generate_signing_key(path: PathLike) -> Path:
    """Make a private key in the file ``path`` and its public key beside it; returns the latter."""
    private, public = Path(path), Path(path).with_suffix(".pub")
    for file in (private, public):
        if file.exists():
            raise KeyringError(f"{file} exists: choose another name")
    problem = _write_pair(private, public)
    if problem:
        raise KeyringError(problem)
    return public


def sign_bundle(folder: PathLike, private_key: PathLike) -> Path:
    """Sign the manifest of a bundle, after checking every file that it lists."""
    bundle = Bundle.open(folder)
    content = (bundle.path / MANIFEST).read_bytes()
    signature = _private_key(Path(private_key)).sign(content)
    target = bundle.path / SIGNATURE
    try:
        write_atomically(target, signature)
    except OSError as error:
        raise BundleError(f"{target} cannot be written ({error.strerror or error})") from None
    return target


def _private_key(path: Path) -> Ed25519PrivateKey:
    _, ed25519, serialization = cryptography()
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise KeyringError(f"{path} cannot be read ({error.strerror or error})") from None
    except (ValueError, TypeError):
        raise KeyringError(f"{path} is not an unencrypted private key in PEM format") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise KeyringError(f"{path} is not an Ed25519 key")
    return key


def _write_pair(private: Path, public: Path) -> str | None:
    """Make and store a key pair; returns what went wrong, so that no traceback shows the key."""
    _, ed25519, serialization = cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    visible = key.public_key().public_bytes(
        encoding, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    try:
        write_atomically(private, secret, mode=0o600)
        write_atomically(public, visible)
    except OSError as error:
        return f"{private} cannot be written ({error.strerror or error})"
    return None
