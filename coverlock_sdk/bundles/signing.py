"""Who made a bundle: an Ed25519 signature of its manifest, and the public keys that are trusted.

A vendor's CI signs with a key file and nothing else. Verifiers name the public keys they trust:
two while one key follows another, and a key that should no longer count is named no more. An old
bundle keeps its signature, so the file of a public key may say since when bundles count.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import BundleError, KeyringError, UntrustedBundleWarning, needs
from coverlock_sdk.files import write_atomically

SIGNATURE = "manifest.sig"
"""The file of a bundle that holds the signature."""

ANYONE = "any"
"""What to trust in order to open a bundle whoever made it."""

PathLike = str | os.PathLike[str]


_SINCE = re.compile(rb"^since:[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?")


class Signer(NamedTuple):
    """Somebody whose bundles are trusted."""

    key: Any
    since: str = ""
    """Bundles that were exported earlier are not; the beginning of a time such as 2026-11-18."""


def trusted_signers(given: Any) -> list[Signer]:
    """Those that a caller names: by a public key, the PEM file of one, or several of these."""
    if isinstance(given, list | tuple):
        if not given:
            raise KeyringError("nobody is trusted: name a public key, or open it for 'any'")
        return [signer for each in given for signer in trusted_signers(each)]
    exceptions, ed25519, serialization = _cryptography()
    key, since = given, ""
    if isinstance(given, str | os.PathLike):
        content = _content(Path(given))
        since = _since(content, given)
        try:
            key = serialization.load_pem_public_key(content)
        except (ValueError, exceptions.UnsupportedAlgorithm):
            raise KeyringError(f"{given} is not a public key in PEM format") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        what = given if key is not given else f"a {type(given).__name__}"
        raise KeyringError(f"{what} is not an Ed25519 public key: give the key or its file")
    return [Signer(key, since)]


def _since(content: bytes, path: PathLike) -> str:
    """The time that a line ``since: 2026-11-18`` above a public key names, if there is one."""
    found = _SINCE.search(content)
    time = found[1].decode(errors="replace") if found else ""
    if found and not _TIME.fullmatch(time):
        raise KeyringError(
            f"'{time}' in {path} is not a time: write 'since: 2026-11-18', or the time that the "
            "manifest of a bundle says it was made at"
        )
    return time


def check_signature(folder: Path, content: bytes, trust: Any) -> str:
    """Refuse a manifest unless somebody trusted signed exactly this ``content``.

    Returns since when their bundles are trusted; "" is always.
    """
    signers = trusted_signers(trust)
    if not (folder / SIGNATURE).exists():
        raise BundleError(
            f"{folder} is not signed: sign it with 'coverlock sign {folder} --key FILE'"
        )
    try:
        signature = read_file(folder / SIGNATURE)
    except DocumentError as error:
        raise BundleError(str(error)) from None
    found = [signer.since for signer in signers if _has_signed(signer.key, signature, content)]
    if not found:
        raise BundleError(
            f"the signature of {folder} was not made by a trusted key for this manifest: "
            "the bundle was altered or signed by somebody else"
        )
    return min(found)


def _has_signed(key: Any, signature: bytes, content: bytes) -> bool:
    exceptions, _, _ = _cryptography()
    try:
        key.verify(signature, content)
    except exceptions.InvalidSignature:
        return False
    return True


def warn_untrusted(bundle: PathLike) -> None:
    """Warn the caller of ``Verifier.open`` or the like that nobody checks who made a bundle."""
    warnings.warn(
        f"{bundle} was opened without checking who made it: name the signer's public key with "
        f"trust= or --trust, or '{ANYONE}' if you trust everyone who can write there",
        UntrustedBundleWarning,
        stacklevel=4,
    )


def generate_signing_key(path: PathLike, passphrase: bytes | None = None) -> Path:
    """Make a private key in the file ``path`` and its public key beside it; returns the latter.

    With a ``passphrase`` the private key is encrypted.
    """
    private, public = Path(path), Path(path).with_suffix(".pub")
    for file in (private, public):
        if file.exists():
            raise KeyringError(f"{file} exists: choose another name")
    if passphrase == b"":
        raise KeyringError("an empty passphrase protects nothing: choose another")
    problem = _write_pair(private, public, passphrase)
    if problem:
        raise KeyringError(problem)
    return public


def _write_pair(private: Path, public: Path, passphrase: bytes | None) -> str | None:
    """Make and store a key pair; returns what went wrong, so that no traceback shows the key."""
    _, ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
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


def is_encrypted(private_key: PathLike) -> bool:
    """Whether the file of a private key asks for a passphrase."""
    return b"BEGIN ENCRYPTED PRIVATE KEY" in _content(Path(private_key))


def signature_of(content: bytes, private_key: PathLike, passphrase: bytes | None) -> bytes:
    """The signature of ``content`` by a private key in PEM format."""
    _, ed25519, serialization = _cryptography()
    encrypted = is_encrypted(private_key)
    if encrypted and passphrase is None:
        raise KeyringError(f"{private_key} is encrypted: give its passphrase")
    try:
        key = serialization.load_pem_private_key(
            _content(Path(private_key)), password=passphrase if encrypted else None
        )
    except (ValueError, TypeError):
        problem = (
            "cannot be decrypted with this passphrase"
            if encrypted
            else "is not a private key in PEM format"
        )
        raise KeyringError(f"{private_key} {problem}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise KeyringError(f"{private_key} is not an Ed25519 key: make one with --new-key")
    signature: bytes = key.sign(content)
    return signature


def _cryptography() -> Any:
    """What the optional package offers: its exceptions, Ed25519, and how keys are stored."""
    with needs("signatures", "cryptography", "sign"):
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return exceptions, ed25519, serialization


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except DocumentError as error:
        raise KeyringError(str(error)) from None
