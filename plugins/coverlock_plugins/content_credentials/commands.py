"""``coverlock c2pa ...``"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from coverlock_plugins.content_credentials.credentials import Credentials, trust_anchors
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner
from coverlock_sdk.cli import EXIT_CODES
from coverlock_sdk.cli.options import (
    fpr_option,
    json_option,
    key_option,
    open_lock,
    path_option,
    sources_argument,
)
from coverlock_sdk.cli.output import process
from coverlock_sdk.images.codecs import write_file
from coverlock_sdk.images.folders import FoundPictures, Source, make_writable, output_paths, search
from coverlock_sdk.loading import parse_setting

SIGNED = {"path": "signed picture", "serial": "serial", "manifest": "manifest", "psnr": "PSNR dB"}
RESOLVED = {
    "manifest_id": "manifest",
    "how": "found by",
    "serial": "serial",
    "signer": "signer",
    "reason": "because",
}

repository_option = path_option(
    "--repository", required=True, help="Folder where manifests are kept."
)


@click.group()
def c2pa() -> None:
    """Sign pictures with content credentials, and recover lost credentials."""


@c2pa.command(epilog=EXIT_CODES)
@sources_argument
@path_option("-o", "--out", required=True, help="Output file, or folder for several pictures.")
@click.option(
    "--id", "identifier", required=True, help="Identifier; each picture gets a new serial of it."
)
@path_option(
    "--cert",
    required=True,
    help="Certificates in PEM format, the signer's first, then each issuer.",
)
@path_option("--key", "private_key", required=True, help="The signer's private key in PEM format.")
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

    process(FoundPictures(list(targets), found.skipped), work, SIGNED, as_json)


@c2pa.command(epilog=EXIT_CODES)
@sources_argument
@repository_option
@path_option("--trust", required=True, help="Certificates that you trust, in PEM format.")
@click.option(
    "-w",
    "--watermark",
    "watermarks",
    multiple=True,
    metavar="NAME:OPTION=VALUE,...",
    help="Options of a watermark, if pictures were signed with any. Repeatable.",
)
@key_option
@fpr_option
@path_option("--save", help="Folder for the manifest stores that marks led to, as NAME.c2pa.")
@json_option
def resolve(
    sources: tuple[str, ...],
    repository: Path,
    trust: Path,
    watermarks: tuple[str, ...],
    key_file: Path | None,
    fpr: float | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Find the manifests of pictures: inside them, or else by their marks.

    A mark leads to a manifest only if the lock verifies and the repository remembers that picture.
    Manifests of unknown signers never count. A picture without a manifest counts as rejected, and
    the answer says why.
    """
    kept = ManifestRepository(repository)
    kinds = sorted({(look.watermark, look.hash) for look in kept.looks()})
    settings = {parse_setting(watermark)[0]: watermark for watermark in watermarks}
    if unused := sorted(settings.keys() - {name for name, _ in kinds}):
        raise click.UsageError(f"no picture in {repository} was signed with {', '.join(unused)}")
    locks = [open_lock(settings.get(name, name), hash, key_file, fpr) for name, hash in kinds]
    resolver = Resolver(kept, locks, trust_anchors(trust))
    if save:
        make_writable({save})

    def work(source: Source) -> dict[str, Any]:
        found = resolver.resolve(source.path)
        entry = kept.entry("manifest", found.match.manifest.id) if save and found.match else None
        if save and entry:
            write_file(save / f"{source.path.stem}.c2pa", kept.content(entry))
        return found.to_dict()

    process(search(sources), work, RESOLVED, as_json)
