"""What ``--audit`` does: every verdict of a command becomes a line of an audit log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coverlock_sdk.cli.batch import Row
from coverlock_sdk.documents import read_file
from coverlock_sdk.locking.picture_verifier import PictureVerifier
from coverlock_sdk.scaling.job import MOST_FILE_BYTES
from coverlock_sdk.verifier.audit_log import AuditLog


def recorded(
    rows: Iterable[Row], audit: Path | None, message: Any, verifier: PictureVerifier
) -> Iterator[Row]:
    """The same rows, each of which is in the log before anybody sees it."""
    bundle = getattr(verifier, "bundle", None)
    version = bundle.manifest.version if bundle else None
    return logged(rows, audit, message, verifier.watermark_name, verifier.hash_name, version)


def logged(
    rows: Iterable[Row],
    audit: Path | None,
    message: Any,
    watermark: str,
    hash: str | None,
    version: str | None,
) -> Iterator[Row]:
    """Likewise, where the networks are known by name only, and the bundle by its version."""
    log = AuditLog(audit, version) if audit else None
    for row in rows:
        if log:
            log.row_reached(row, message, watermark, hash)
        yield row


def evidence(path: Path, audit: Path | None) -> tuple[Any, Row]:
    """What to verify of a file, and what a log says of it: its digest, if there is a log."""
    if audit is None:
        return path, {}
    content = read_file(path, MOST_FILE_BYTES)
    return content, {"sha256": hashlib.sha256(content).hexdigest()}
