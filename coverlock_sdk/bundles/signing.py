"""Signing bundles, so that verifiers know who exported them and that nobody changed them since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from coverlock_sdk.bundles.bundle import MANIFEST, Bundle
from coverlock_sdk.bundles.openssf import MODEL_SIGNATURE, model_signature
from coverlock_sdk.bundles.signatures import SIGNATURE, SIGNATURES
from coverlock_sdk.bundles.trust import cryptography
from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import BundleError, KeyringError
from coverlock_sdk.files import write_atomically

Format = Literal["coverlock", "model-signing"]
FORMATS: tuple[Format, ...] = ("coverlock", "model-signing")
"""Ed25519 over the manifest, or OpenSSF's format with a key of an elliptic curve."""

PathLike = str | os.PathLike[str]


def generate_signing_key(
    path: PathLike, passphrase: bytes | None = None, format: Format = "coverlock"
) -> Path:
    """Make a private key in the file ``path`` and its public key beside it; returns the latter.

    With a ``passphrase`` the private key is encrypted.
    """
    private, public = Path(path), Path(path).with_suffix(".pub")
    for file in (private, public):
        if file.exists():
            raise KeyringError(f"{file} exists: choose another name")
    if passphrase == b"":
        raise KeyringError("an empty passphrase protects nothing: choose another")
    problem = _write_pair(private, public, passphrase, format)
    if problem:
        raise KeyringError(problem)
    return public


def sign_bundle(
    folder: PathLike,
    private_key: PathLike,
    passphrase: bytes | None = None,
    format: Format = "coverlock",
) -> Path:
    """Sign a bundle, after checking every file that it lists."""
    bundle = Bundle.open(folder)
    key = _private_key(Path(private_key), passphrase, format)
    if format == "coverlock":
        target = bundle.path / SIGNATURE
        signature = key.sign((bundle.path / MANIFEST).read_bytes())
    else:
        target = bundle.path / MODEL_SIGNATURE
        signature = model_signature(bundle.path, Path(private_key), passphrase, SIGNATURES)
    try:
        write_atomically(target, signature)
    except OSError as error:
        raise BundleError(f"{target} cannot be written ({error.strerror or error})") from None
    return target


def is_encrypted(private_key: PathLike) -> bool:
    """Whether the file of a private key asks for a passphrase."""
    content = _content(Path(private_key))
    return b"BEGIN ENCRYPTED PRIVATE KEY" in content or b"Proc-Type: 4,ENCRYPTED" in content


def _private_key(path: Path, passphrase: bytes | None, format: Format) -> Any:
    _, ed25519, serialization = cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec

    encrypted = is_encrypted(path)
    if encrypted and passphrase is None:
        raise KeyringError(f"{path} is encrypted: give its passphrase")
    try:
        key = serialization.load_pem_private_key(
            _content(path), password=passphrase if encrypted else None
        )
    except (ValueError, TypeError):
        problem = (
            "cannot be decrypted with this passphrase"
            if encrypted
            else "is not a private key in PEM format"
        )
        raise KeyringError(f"{path} {problem}") from None
    wanted, said = {
        "coverlock": (ed25519.Ed25519PrivateKey, "an Ed25519 key"),
        "model-signing": (ec.EllipticCurvePrivateKey, "a key of an elliptic curve such as P-256"),
    }[format]
    if not isinstance(key, wanted):
        raise KeyringError(f"{path} is not {said}, which the format '{format}' needs")
    return key


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except DocumentError as error:
        raise KeyringError(str(error)) from None


def _write_pair(
    private: Path, public: Path, passphrase: bytes | None, format: Format
) -> str | None:
    """Make and store a key pair; returns what went wrong, so that no traceback shows the key."""
    _, ed25519, serialization = cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec

    key: Any = (
        ed25519.Ed25519PrivateKey.generate()
        if format == "coverlock"
        else ec.generate_private_key(ec.SECP256R1())
    )
    encoding = serialization.Encoding.PEM
    protection = (
        serialization.NoEncryption()
        if passphrase is None
        else serialization.BestAvailableEncryption(passphrase)
    )
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, protection)
    visible = key.public_key().public_bytes(
        encoding, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    try:
        write_atomically(private, secret, mode=0o600)
        write_atomically(public, visible)
    except OSError as error:
        return f"{private} cannot be written ({error.strerror or error})"
    return None
