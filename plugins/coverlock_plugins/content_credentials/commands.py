"""``coverlock c2pa ...``"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from coverlock_plugins.content_credentials.credentials import Credentials, trust_anchors
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.resolving import Resolution, Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner
from coverlock_plugins.content_credentials.trial_certificates import make_trial_certificates
from coverlock_sdk.cli import EXIT_CODES
from coverlock_sdk.cli.options import (
    fpr_option,
    json_option,
    key_option,
    open_lock,
    sources_argument,
)
from coverlock_sdk.cli.output import answer, process
from coverlock_sdk.images.codecs import save_image, write_file
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.folders import Found, Source, make_writable, output_paths, search

SIGNED = {"path": "signed picture", "serial": "serial", "manifest": "manifest", "psnr": "PSNR dB"}
RESOLVED = {
    "manifest_id": "manifest",
    "how": "found by",
    "serial": "serial",
    "signer": "signer",
    "altered_cells": "altered cells",
    "reason": "because",
}

repository_option = click.option(
    "--repository",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder where manifests are kept.",
)
trust_option = click.option(
    "--trust",
    type=click.Path(path_type=Path),
    required=True,
    help="Certificates that you trust, in PEM format.",
)


@click.group()
def c2pa() -> None:
    """Sign pictures with content credentials, and recover them."""


@c2pa.command(epilog=EXIT_CODES)
@sources_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file, or folder for several pictures.",
)
@click.option(
    "--id", "identifier", required=True, help="Identifier; each picture gets a new serial of it."
)
@click.option(
    "--cert",
    type=click.Path(path_type=Path),
    required=True,
    help="Certificates in PEM format, the signer's first, then each issuer.",
)
@click.option(
    "--key",
    "private_key",
    type=click.Path(path_type=Path),
    required=True,
    help="The signer's private key in PEM format.",
)
@repository_option
@click.option(
    "-w",
    "--watermark",
    required=True,
    help="Watermark plugin, as NAME or NAME:OPTION=VALUE,OPTION=VALUE.",
)
@key_option
@fpr_option
@json_option
def sign(
    sources: tuple[str, ...],
    out: Path,
    identifier: str,
    cert: Path,
    private_key: Path,
    repository: Path,
    as_json: bool,
    **lock_settings: Any,
) -> None:
    """Mark pictures, sign manifests that say so, and keep the manifests in a repository.

    Each picture carries its own locked serial. Its manifest holds two soft bindings, the lock and a
    fingerprint; 'coverlock c2pa resolve' uses them to find the manifest after it was stripped.
    """
    credentials = Credentials.load(cert, private_key)
    found = search(sources)
    kept = ManifestRepository(repository, create=True)
    lock = open_lock(**lock_settings, registry=kept.registry.path)
    signer = PictureSigner(lock, kept, credentials)
    targets = output_paths(found.pictures, out)
    make_writable({target.parent for target in targets.values()})

    def work(source: Source) -> dict[str, Any]:
        serial = kept.registry.issue(identifier, str(source.path))
        return {"accepted": True, **asdict(signer.sign(source.path, targets[source], serial))}

    process(Found(list(targets), found.skipped), work, SIGNED, as_json)


@c2pa.command(epilog=EXIT_CODES)
@sources_argument
@repository_option
@trust_option
@key_option
@fpr_option
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for what a mark led to: NAME.c2pa is the manifest store, and NAME.altered.png "
    "shows where the picture seems altered.",
)
@json_option
def resolve(
    sources: tuple[str, ...],
    repository: Path,
    trust: Path,
    key_file: Path | None,
    fpr: float | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Find the manifests of pictures: inside them, or else by their marks.

    A mark leads to a manifest only if the lock verifies and the repository remembers that picture.
    Manifests of unknown signers never count. A picture without a manifest counts as rejected, and
    the answer says why. With --json, 'altered' maps where a picture seems to differ from the signed
    thumbnail.
    """
    kept = ManifestRepository(repository)
    kinds = sorted({(look.watermark, look.hash) for look in kept.looks(after=0)})
    locks = [open_lock(watermark, hash, key_file, fpr) for watermark, hash in kinds]
    resolver = Resolver(kept, locks, trust_anchors(trust))

    def work(source: Source) -> dict[str, Any]:
        found = resolver.resolve(source.path)
        if save:
            _save(found, kept, source.path, save)
        cells = int(found.altered.altered.sum()) if found.altered else None
        return {**found.to_dict(), "altered_cells": cells}

    process(search(sources), work, RESOLVED, as_json)


@c2pa.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@repository_option
@trust_option
@json_option
def merge(other: Path, repository: Path, trust: Path, as_json: bool) -> None:
    """Add the manifests of another repository, OTHER, to this one.

    A manifest by an unknown signer, or for a serial that is already taken, is reported and skipped.
    """
    source, anchors = ManifestRepository(other), trust_anchors(trust)
    merged = ManifestRepository(repository, create=True).merge(source, anchors)
    skipped = [f"skipped: {reason}" for reason in merged.skipped]
    answer(asdict(merged), as_json, *skipped, f"{merged.added} manifests added to {repository}")


@c2pa.command("trial-certificates")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@json_option
def trial_certificates(folder: Path, as_json: bool) -> None:
    """Make certificates in FOLDER for trials; they are trusted only where you name them."""
    files = make_trial_certificates(folder)
    answer(
        {"cert": str(files.chain), "key": str(files.key), "trust": str(files.root)},
        as_json,
        f"to sign: --cert {files.chain} --key {files.key}",
        f"to resolve: --trust {files.root}",
    )


def _save(found: Resolution, kept: ManifestRepository, picture: Path, folder: Path) -> None:
    """Write the manifest store that a mark led to, and a map of what was altered."""
    make_writable({folder})
    entry = kept.of_manifest(found.match.manifest.id) if found.match else None
    if entry is not None:
        write_file(folder / f"{picture.stem}.c2pa", kept.content(entry))
    if found.altered:
        save_image(found.altered.shown_on(read(picture)), folder / f"{picture.stem}.altered.png")
