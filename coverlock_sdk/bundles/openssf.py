"""Signatures in the format of OpenSSF's model-signing, which other tools read too.

They cover every file of a bundle. We ask for one thing more: that the manifest which is used is the
one that was signed, whatever happens to the folder meanwhile.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import needs

MODEL_SIGNATURE = "model.sig"
_MANIFEST = "manifest.json"


def model_signature(
    folder: Path, private_key: Path, passphrase: bytes | None, unsigned: Sequence[str]
) -> bytes:
    """A signature of every file in ``folder`` but the ``unsigned`` ones."""
    signing, _, hashing = _library()
    left_out = [folder / name for name in unsigned]
    config = signing.Config().set_hashing_config(hashing.Config().set_ignored_paths(paths=left_out))
    config.use_elliptic_key_signer(private_key=private_key, password=passphrase)
    with tempfile.TemporaryDirectory() as scratch:
        signature = Path(scratch, MODEL_SIGNATURE)
        config.sign(folder, signature)
        return signature.read_bytes()


def signed_manifest(folder: Path, signature: bytes, public_key: bytes, content: bytes) -> bool:
    """Whether the holder of ``public_key`` signed this folder with a manifest of this content."""
    _, verifying, _ = _library()
    with tempfile.TemporaryDirectory() as scratch:
        # What is checked is what was read, not what lies there a moment later.
        key, copy = Path(scratch, "key.pub"), Path(scratch, MODEL_SIGNATURE)
        key.write_bytes(public_key)
        copy.write_bytes(signature)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # where it prints advice
                verifying.Config().use_elliptic_key_verifier(public_key=key).verify(folder, copy)
            return _signed_digest(signature) == hashlib.sha256(content).hexdigest()
        except Exception:  # a stranger's file in a foreign parser, which raises anything
            return False


def _signed_digest(signature: bytes) -> Any:
    statement = json.loads(base64.b64decode(json.loads(signature)["dsseEnvelope"]["payload"]))
    resources = statement["predicate"]["resources"]
    [digest] = [
        resource["digest"]
        for resource in resources
        if (resource["name"], resource["algorithm"]) == (_MANIFEST, "sha256")
    ]
    return digest


def _library() -> Any:
    with needs("this format of signatures", "model-signing", "model-signing"):
        from model_signing import hashing, signing, verifying
    return signing, verifying, hashing
