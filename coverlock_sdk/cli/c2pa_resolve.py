"""``coverlock c2pa resolve``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.c2pa_saving import save_found
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_lock
from coverlock_sdk.cli.options import (
    fpr_option,
    json_option,
    key_option,
    repository_option,
    sources_argument,
)
from coverlock_sdk.images.folders import Source, search
from coverlock_sdk.named_options import parse_setting
from coverlock_sdk.provenance.credentials import trust_anchors
from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.resolving import Resolver

if TYPE_CHECKING:
    from coverlock_sdk.locking.locked_watermark import LockedWatermark

COLUMNS = {
    "manifest_id": "manifest",
    "how": "found by",
    "serial": "serial",
    "signer": "signer",
    "altered_cells": "altered cells",
    "reason": "because",
}


@click.command(epilog=HELP)
@sources_argument
@repository_option
@click.option(
    "-w",
    "--watermark",
    help="Watermark plugin, as NAME:OPTION=VALUE; otherwise those that the repository names.",
)
@key_option
@click.option(
    "--trust",
    type=click.Path(path_type=Path),
    help="Certificates in PEM format of those who may sign; otherwise anybody may.",
)
@fpr_option
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for what a mark led to: NAME.c2pa, the manifest store, and NAME.altered.png, "
    "where the picture seems altered.",
)
@json_option
def resolve(
    sources: tuple[str, ...],
    repository: Path,
    watermark: str | None,
    key_file: Path | None,
    trust: Path | None,
    fpr: float | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Find the manifests of pictures: inside them, or else by their marks.

    A mark leads to a manifest only if the lock verifies and the picture looks like the one that was
    signed. A picture without a manifest counts as rejected, and is told why. With --json, 'altered'
    maps where a picture seems to differ from the signed thumbnail.
    """
    kept = ManifestRepository(repository)
    locks = _locks(kept, watermark, key_file=key_file, fpr=fpr)
    resolver = Resolver(kept, locks, trust_anchors(trust) if trust else None)

    def work(source: Source) -> dict[str, Any]:
        found = resolver.resolve(source.path)
        if save:
            save_found(found, kept, source.path, save)
        cells = int(found.altered.altered.sum()) if found.altered else None
        return {**found.to_dict(), "altered_cells": cells}

    process(search(sources), work, COLUMNS, as_json)


def _locks(
    repository: ManifestRepository, setting: str | None, **common: Any
) -> list[LockedWatermark]:
    """A lock for each watermark and hash in the repository, or for those of one watermark."""
    kinds = sorted({(each.watermark, each.hash) for each in repository.looks(after=0)})
    if setting is None:
        return [open_lock(watermark, hash, **common) for watermark, hash in kinds]
    name, _ = parse_setting(setting)
    return [open_lock(setting, hash, **common) for watermark, hash in kinds if watermark == name]
