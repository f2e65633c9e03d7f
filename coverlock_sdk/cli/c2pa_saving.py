"""What ``coverlock c2pa resolve --save`` writes."""

from __future__ import annotations

from pathlib import Path

from coverlock_sdk.images.codecs import save_image, write_file
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.outputs import make_writable
from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.resolving import Resolution


def save_found(found: Resolution, kept: ManifestRepository, picture: Path, folder: Path) -> None:
    """Write the manifest store that a mark led to, and a map of what was altered."""
    make_writable({folder})
    entry = kept.of_manifest(found.match.manifest.id) if found.match else None
    if entry is not None:
        write_file(folder / f"{picture.stem}.c2pa", kept.content(entry))
    if found.altered:
        save_image(found.altered.shown_on(read(picture)), folder / f"{picture.stem}.altered.png")
