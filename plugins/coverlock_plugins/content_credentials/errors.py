"""What can be wrong with content credentials."""

from __future__ import annotations

from coverlock_sdk import CoverLockError


class ProvenanceError(CoverLockError):
    """A manifest, a certificate or a repository of manifests cannot be used."""
