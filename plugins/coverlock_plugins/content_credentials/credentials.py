"""The signer: a chain of certificates and the private key of its first, checked before use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_sdk.documents import read_file
from coverlock_sdk.errors import needs

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True, repr=False)  # never print a private key
class Credentials:
    """What a signer signs with."""

    algorithm: str
    """As C2PA names it: es256, ed25519, ps256, ..."""
    chain: bytes
    """Certificates in PEM format, the signer's first."""
    key: bytes
    """The signer's private key in PEM format."""

    @classmethod
    def load(cls, certificates: Path, private_key: Path) -> Credentials:
        """Read both files; refuse a chain with a gap, or a key that does not fit."""
        chain, secret = read_file(certificates), read_file(private_key)
        parsed = _certificates(chain, certificates)
        _check_links(parsed, certificates)
        return cls(_algorithm(secret, parsed[0], private_key, certificates), chain, secret)


def trust_anchors(path: Path) -> bytes:
    """The certificates of trusted signers, from a PEM file."""
    content = read_file(path)
    _certificates(content, path)
    return content


def _certificates(content: bytes, path: Path) -> list[Certificate]:
    with needs("content credentials", "cryptography", "c2pa"):
        from cryptography import x509
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise ProvenanceError(f"{path} holds no certificates in PEM format") from None


def _check_links(chain: Sequence[Certificate], path: Path) -> None:
    """Each certificate must be valid today, and signed by the next."""
    from cryptography.exceptions import InvalidSignature

    now = datetime.now(timezone.utc)
    for certificate in chain:
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise ProvenanceError(
                f"the certificate of {_name(certificate)} in {path} is valid from "
                f"{certificate.not_valid_before_utc:%Y-%m-%d} to "
                f"{certificate.not_valid_after_utc:%Y-%m-%d} only: get a new one"
            )
    for certificate, issuer in pairwise(chain):
        try:
            certificate.verify_directly_issued_by(issuer)
        except (InvalidSignature, TypeError, ValueError):
            raise ProvenanceError(
                f"the chain in {path} is broken: {_name(issuer)} did not issue the certificate of "
                f"{_name(certificate)}; put each issuer right after what it issued"
            ) from None


def _name(certificate: Certificate) -> str:
    return f"'{certificate.subject.rfc4514_string()}'"


def _algorithm(secret: bytes, signer: Certificate, key_path: Path, path: Path) -> str:
    """The signature algorithm of this key, which must belong to the first certificate."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        key: Any = serialization.load_pem_private_key(secret, password=None)
        fits = key.public_key() == signer.public_key()
    except (ValueError, TypeError, AttributeError):
        raise ProvenanceError(
            f"{key_path} is not an unencrypted private key in PEM format"
        ) from None
    if not fits:
        raise ProvenanceError(
            f"{key_path} is not the key of the first certificate in {path}, that of {_name(signer)}"
        )
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "ed25519"
    if isinstance(key, rsa.RSAPrivateKey):
        return "ps256"
    curves = {"secp256r1": "es256", "secp384r1": "es384", "secp521r1": "es512"}
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in curves:
        return curves[key.curve.name]
    raise ProvenanceError(f"C2PA has no signatures for the kind of key in {key_path}: use ES256")
