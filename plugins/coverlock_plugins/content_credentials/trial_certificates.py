"""Certificates to try things out with; they are trusted only where their root is named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_sdk.errors import needs
from coverlock_sdk.files import write_atomically

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateBuilder

DAYS = 90


@dataclass(frozen=True)
class TrialFiles:
    """Where the files of a made-up signer are."""

    chain: Path
    """The signer's certificate, and the one that issued it."""
    key: Path
    """The signer's private key."""
    root: Path
    """The certificate to trust, for ``--trust``."""


def make_trial_certificates(folder: Path, name: str = "CoverLock trial signer") -> TrialFiles:
    """Make a signer and an issuer under ``folder``; the issuer's key is thrown away."""
    with needs("content credentials", "cryptography", "c2pa"):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    files = TrialFiles(folder / "chain.pem", folder / "key.pem", folder / "root.pem")
    for path in (files.chain, files.key, files.root):
        if path.exists():
            raise ProvenanceError(f"{path} exists: choose another folder")
    issuing, signing = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _issued(f"{name}, root", f"{name}, root", issuing.public_key(), issuing, authority=True)
    leaf = _issued(name, f"{name}, root", signing.public_key(), issuing, authority=False)
    pem = serialization.Encoding.PEM
    secret = signing.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(files.key, secret, mode=0o600)
        write_atomically(files.chain, leaf.public_bytes(pem) + root.public_bytes(pem))
        write_atomically(files.root, root.public_bytes(pem))
    except OSError as error:
        raise ProvenanceError(f"{folder} cannot be written ({error.strerror or error})") from None
    return files


def _issued(subject: str, issuer: str, public: Any, issuing: Any, authority: bool) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    now = datetime.now(timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(_named(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    return _with_usage(builder, issuing, authority).sign(issuing, hashes.SHA256())


def _with_usage(builder: CertificateBuilder, issuing: Any, authority: bool) -> CertificateBuilder:
    """What C2PA asks of a signer: an extended usage, and who issued its certificate."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    usage = x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(usage, critical=True)
    if authority:
        return builder
    extended = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuing.public_key())
    return builder.add_extension(extended, critical=False).add_extension(issuer, critical=False)


def _named(name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "for trials only"),
        ]
    )
