"""Whose bundles may be opened: public keys, several while one follows another, some revoked.

A trust file holds them as JSON. A key that it revokes is refused wherever else it is named.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_sdk.documents import Document, DocumentError, read_file
from coverlock_sdk.errors import KeyringError, UntrustedBundleWarning, needs
from coverlock_sdk.files import write_atomically

ANYONE = "any"
"""What to trust in order to open a bundle whoever made it."""

PathLike = str | os.PathLike[str]

_FORMAT = 1
_CURVES = ("secp256r1", "secp384r1", "secp521r1")  # those that model-signing knows
_LONGEST_NAME = 200


@dataclass(frozen=True)
class TrustedKey:
    """A public key with a name, and when it was revoked, if it was."""

    name: str
    pem: bytes
    """As cryptography writes it, so that equal keys have equal bytes."""
    revoked: str | None = None

    @classmethod
    def of(cls, key: Any, name: str, revoked: str | None = None) -> TrustedKey:
        """A key of cryptography: Ed25519, or of an elliptic curve for model-signing."""
        _, ed25519, serialization = cryptography()
        if not isinstance(key, ed25519.Ed25519PublicKey) and _curve(key) not in _CURVES:
            raise KeyringError(
                f"{name} is neither an Ed25519 key nor one of the curves {', '.join(_CURVES)}"
            )
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return cls(name, key.public_bytes(serialization.Encoding.PEM, form), revoked)

    @classmethod
    def parsed(cls, pem: bytes, name: str, revoked: str | None = None) -> TrustedKey:
        """From the PEM format."""
        exceptions, _, serialization = cryptography()
        try:
            key = serialization.load_pem_public_key(pem)
        except (ValueError, exceptions.UnsupportedAlgorithm):
            raise KeyringError(f"{name} is not a public key in PEM format") from None
        return cls.of(key, name, revoked)

    @property
    def key(self) -> Any:
        """The key that checks signatures."""
        _, _, serialization = cryptography()
        return serialization.load_pem_public_key(self.pem)

    @property
    def is_of_curve(self) -> bool:
        """Whether its signatures are those of model-signing."""
        return _curve(self.key) is not None

    @property
    def fingerprint(self) -> str:
        """A short name that no other key has."""
        return hashlib.sha256(self.pem).hexdigest()[:16]


@dataclass(frozen=True)
class Trust:
    """The public keys of those whose bundles are opened, and the revoked ones."""

    keys: tuple[TrustedKey, ...]

    @classmethod
    def of(cls, given: Any) -> Trust:
        """What a caller may give: a public key, the file of one, a trust file, or several."""
        if isinstance(given, list | tuple):
            if not given:
                raise KeyringError("nobody is trusted: name a public key, or open it for 'any'")
            return cls(tuple(key for each in given for key in cls.of(each).keys))
        if isinstance(given, str | os.PathLike):
            return cls.load(given)
        if not hasattr(given, "public_bytes"):
            raise KeyringError(
                f"a {type(given).__name__} is not a public key: give a key, its file, or a trust "
                "file"
            )
        return cls((TrustedKey.of(given, "the trusted key"),))

    @classmethod
    def load(cls, path: PathLike) -> Trust:
        """Read a public key in PEM format, or a trust file."""
        content = _content(Path(path))
        if content.lstrip().startswith(b"-----BEGIN"):
            return cls((TrustedKey.parsed(content, str(path)),))
        try:
            document = Document.parsed(content)
            version = document.integer("coverlock_trust", 1)
        except DocumentError:
            raise KeyringError(
                f"{path} is neither a public key in PEM format nor a trust file: "
                "make one with 'coverlock trust'"
            ) from None
        if version > _FORMAT:
            raise KeyringError(f"{path} was written by a newer version: update coverlock-sdk")
        try:
            keys = tuple(_entry(entry) for entry in document.documents("keys"))
        except (DocumentError, KeyringError) as error:
            raise KeyringError(f"the trust file {path} is damaged ({error})") from None
        return cls(keys)

    def save(self, path: PathLike) -> None:
        """Write a trust file."""
        entries = [
            {"name": key.name, "public_key": key.pem.decode(), "revoked": key.revoked}
            for key in self.keys
        ]
        content = json.dumps({"coverlock_trust": _FORMAT, "keys": entries}, indent=2)
        try:
            write_atomically(Path(path), content.encode() + b"\n")
        except OSError as error:
            raise KeyringError(f"{path} cannot be written ({error.strerror or error})") from None

    def adding(self, new: TrustedKey) -> Trust:
        """With one key more; one that was revoked stays so."""
        for key in self.keys:
            if key.pem == new.pem and key.revoked:
                raise KeyringError(f"the key '{key.name}' was revoked on {key.revoked}")
            if key.pem == new.pem:
                return self
        return self._with(new)

    def revoking(self, old: TrustedKey) -> Trust:
        """Without trust in a key, which stays listed so that it is refused by name."""
        today = datetime.now(timezone.utc).date().isoformat()
        if all(key.pem != old.pem for key in self.keys):
            return self._with(replace(old, revoked=today))
        keys = (
            replace(key, revoked=key.revoked or today) if key.pem == old.pem else key
            for key in self.keys
        )
        return Trust(tuple(keys))

    def _with(self, new: TrustedKey) -> Trust:
        if any(key.name == new.name for key in self.keys):
            raise KeyringError(f"another key is called '{new.name}': rename the file of this one")
        return Trust((*self.keys, new))


def warn_untrusted(bundle: PathLike) -> None:
    """Tell who called ``Verifier.open`` or the like that nobody checks who made a bundle."""
    warnings.warn(
        f"{bundle} was opened without checking who made it: name the signer's public key with "
        f"trust= or --trust, or '{ANYONE}' if everybody who can write there is trusted",
        UntrustedBundleWarning,
        stacklevel=4,
    )


def cryptography() -> Any:
    """What the optional package offers: its exceptions, Ed25519, and how keys are stored."""
    with needs("signatures", "cryptography", "sign"):
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return exceptions, ed25519, serialization


def _curve(key: Any) -> str | None:
    """The name of the curve that a key is a point of."""
    return getattr(getattr(key, "curve", None), "name", None)


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except DocumentError as error:
        raise KeyringError(str(error)) from None


def _entry(entry: Document) -> TrustedKey:
    revoked = entry.text("revoked", _LONGEST_NAME) if "revoked" in entry else None
    pem = entry.text("public_key").encode()
    return TrustedKey.parsed(pem, entry.text("name", _LONGEST_NAME), revoked)
