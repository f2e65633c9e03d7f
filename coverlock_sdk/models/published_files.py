"""Files that a project publishes on a server of its own: fetched on request, or brought by you.

``coverlock fetch`` downloads them if the SHA-256 of each is pinned, and refuses anything else.
Where no full digest is known it does not guess: you get the files and ``coverlock import`` takes
them, after the plugin has looked at what they hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.models.assets import Progress, cache_folder, writing_to


@dataclass(frozen=True)
class PublishedFile:
    """One file, and what it must be."""

    filename: str
    """What it is called in the cache."""

    original: str
    """What its publisher calls it."""

    address: str
    """The file's own address, or a page about it where there is no digest."""

    sha256: str | None = None
    """The hexadecimal digest, where it is known in full."""


@dataclass(frozen=True)
class PublishedFiles:
    """The files of one model, which live in a folder of the cache."""

    name: str
    """What ``coverlock fetch`` and ``coverlock import`` call it."""

    files: tuple[PublishedFile, ...]

    description: str
    """What it is and under which licence, in one line."""

    @property
    def folder(self) -> Path:
        """Where the files are kept."""
        return cache_folder() / self.name

    @property
    def is_present(self) -> bool:
        """Whether all files have been fetched or imported."""
        return all((self.folder / file.filename).is_file() for file in self.files)

    @property
    def can_be_fetched(self) -> bool:
        """Whether the digest of every file is known."""
        return all(file.sha256 for file in self.files)

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download what is not there yet, and return the folder that holds it."""
        for file in self.files:
            if not (self.folder / file.filename).is_file():
                self.keep(file.filename, self._download(file, progress))
        return self.folder

    def locate(self) -> Path:
        """The folder that holds the files, or an error that says how to get them."""
        if not self.is_present:
            originals = " ".join(file.original for file in self.files)
            get = f"coverlock import {self.name} {originals}"
            if self.can_be_fetched:
                get = f"coverlock fetch {self.name}"
            raise MissingModelError(
                f"the files of {self.name!r} are not in {self.folder}: get them with '{get}'"
            )
        return self.folder

    def keep(self, filename: str, content: bytes) -> Path:
        """Put a file into the folder, whole or not at all."""
        with writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / filename, content)
        return self.folder / filename

    def card(self) -> Mapping[str, object]:
        """Digests of the files that are there, and whether they are the pinned ones."""
        digests = {file.filename: self._digest(file) for file in self.files}
        pinned = {file.filename: file.sha256 for file in self.files}
        return {"sha256": digests, "as_published": digests == pinned}

    def _digest(self, file: PublishedFile) -> str:
        return hashlib.sha256((self.folder / file.filename).read_bytes()).hexdigest()

    def _download(self, file: PublishedFile, progress: Progress | None) -> bytes:
        import tempfile

        from coverlock_sdk.models.downloads import download  # an HTTP client, which few need

        by_hand = f"get it yourself and run: coverlock import {self.name} {file.original}"
        if file.sha256 is None:
            raise MissingModelError(
                f"no SHA-256 of {file.original} is known in full ({file.address}), and nothing is "
                f"fetched without one: {by_hand}"
            )
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / file.filename
            download(file.address, file.sha256, target, by_hand, progress)
            return target.read_bytes()
