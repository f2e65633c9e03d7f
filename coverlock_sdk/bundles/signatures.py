"""Signatures of bundles, as a verifier checks them: whose they are, and of what."""

from __future__ import annotations

from pathlib import Path

from coverlock_sdk.bundles.openssf import MODEL_SIGNATURE, signed_manifest
from coverlock_sdk.bundles.trust import Trust, TrustedKey, cryptography
from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import BundleError

SIGNATURE = "manifest.sig"
"""An Ed25519 signature of the manifest."""

SIGNATURES = (SIGNATURE, MODEL_SIGNATURE)
"""Files of a bundle that no signature covers."""


def check_signature(folder: Path, content: bytes, trust: Trust) -> None:
    """Refuse a manifest unless somebody trusted signed exactly this ``content``."""
    there = [name for name in SIGNATURES if (folder / name).exists()]
    if not there:
        raise BundleError(
            f"{folder} is not signed: sign it with 'coverlock sign {folder} --key FILE'"
        )
    signers = [key for key in trust.keys if _has_signed(key, folder, content)]
    revoked = {key.pem: key for key in trust.keys if key.revoked}
    if any(signer.pem not in revoked for signer in signers):
        return
    if not signers:
        raise BundleError(
            f"the signature of {folder} was not made by a trusted key for this manifest: "
            "the bundle was altered or signed by somebody else"
        )
    signer = revoked[signers[0].pem]
    raise BundleError(
        f"{folder} was signed with the key '{signer.name}' ({signer.fingerprint}), which was "
        f"revoked on {signer.revoked}: check the bundle and sign it with another key"
    )


def _has_signed(key: TrustedKey, folder: Path, content: bytes) -> bool:
    signature = _signature(folder / (MODEL_SIGNATURE if key.is_of_curve else SIGNATURE))
    if signature is None:
        return False
    if key.is_of_curve:
        return signed_manifest(folder, signature, key.pem, content)
    exceptions, _, _ = cryptography()
    try:
        key.key.verify(signature, content)
    except exceptions.InvalidSignature:
        return False
    return True


def _signature(path: Path) -> bytes | None:
    if not path.exists():
        return None
    try:
        return read_file(path)
    except DocumentError as error:
        raise BundleError(str(error)) from None
