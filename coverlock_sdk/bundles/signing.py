"""Who made a bundle: an Ed25519 signature of its manifest, and the public keys that are trusted.

A vendor's CI signs with a key file and nothing else. Verifiers name the public keys they trust:
two while one key follows another, and a key that should no longer count is named no more. An old
bundle keeps its signature, so the file of a public key may say since when bundles count.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from coverlock_sdk.documents import read_file
from coverlock_sdk.errors import BundleError, KeyringError, needs
from coverlock_sdk.files import write_atomically

SIGNATURE = "manifest.sig"
"""The file of a bundle that holds the signature."""

ANYONE = "any"
"""What to trust in order to open a bundle whoever made it."""

PathLike = str | os.PathLike[str]


_SINCE = re.compile(rb"^since:[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?")


def check_signature(folder: Path, content: bytes, trust: Any) -> str:
    """Refuse a manifest unless somebody trusted signed exactly this ``content``.

    ``trust`` is the PEM file of a public key, or several of them. Returns since when bundles of
    that key are trusted, the beginning of a time such as 2026-11-18; "" is always.
    """
    files = trust if isinstance(trust, list | tuple) else [trust]
    if not files:
        raise KeyringError("nobody is trusted: name a public key, or open it for 'any'")
    signers = [_signer(file) for file in files]
    if not (folder / SIGNATURE).exists():
        raise BundleError(
            f"{folder} is not signed: sign it with 'coverlock sign {folder} --key FILE'"
        )
    signature, found = read_file(folder / SIGNATURE), []
    exceptions, _, _ = _cryptography()
    for key, since in signers:
        with contextlib.suppress(exceptions.InvalidSignature):
            key.verify(signature, content)
            found.append(since)
    if not found:
        raise BundleError(
            f"the signature of {folder} was not made by a trusted key for this manifest: "
            "the bundle was altered or signed by somebody else"
        )
    return min(found)


def _signer(file: PathLike) -> tuple[Any, str]:
    """The public key in a file, and the time that a line ``since: 2026-11-18`` above it names."""
    exceptions, ed25519, serialization = _cryptography()
    content = read_file(file)
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, exceptions.UnsupportedAlgorithm):
        raise KeyringError(f"{file} is not a public key in PEM format") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise KeyringError(f"{file} is not an Ed25519 public key: use the one of 'coverlock sign'")
    line = _SINCE.search(content)
    since = line[1].decode(errors="replace") if line else ""
    if line and not _TIME.fullmatch(since):
        raise KeyringError(
            f"'{since}' in {file} is not a time: write 'since: 2026-11-18', or the time that the "
            "manifest of a bundle says it was made at"
        )
    return key, since


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


def _write_pair(private: Path, public: Path) -> str | None:
    """Make and store a key pair; returns what went wrong, so that no traceback shows the key."""
    _, ed25519, form = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    pem = form.Encoding.PEM
    secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption())
    visible = key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    try:
        write_atomically(private, secret, mode=0o600)
        write_atomically(public, visible)
    except OSError as error:
        return f"{private} cannot be written ({error.strerror or error})"
    return None


def signature_of(content: bytes, private_key: PathLike) -> bytes:
    """The signature of ``content`` by a private key in PEM format."""
    _, ed25519, serialization = _cryptography()
    secret = read_file(private_key)
    try:
        key = serialization.load_pem_private_key(secret, password=None)
    except (ValueError, TypeError):  # of an encrypted key
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise KeyringError(
            f"{private_key} is not an Ed25519 private key in PEM format without a passphrase: "
            "make one with --new-key"
        )
    signature: bytes = key.sign(content)
    return signature


def _cryptography() -> Any:
    """What the optional package offers: its exceptions, Ed25519, and how keys are stored."""
    with needs("signatures", "cryptography", "sign"):
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return exceptions, ed25519, serialization
