"""``coverlock verify`` and ``identify``, here or in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli import EXIT_CODES
from coverlock_sdk.cli.options import (
    BUNDLE_ONLY,
    audit_option,
    identifier_option,
    json_option,
    open_verifier,
    path_option,
    remembered_names,
    require_one,
    require_registry,
    sources_argument,
    verifier_options,
    workers_option,
)
from coverlock_sdk.cli.output import VERDICT_COLUMNS, Row, each, logged, report
from coverlock_sdk.documents import read_file
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.folders import Source, search
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.picture_verifier import PictureVerifier
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.scaling.job import MOST_FILE_BYTES, VerificationJob
from coverlock_sdk.scaling.pool import in_processes


@click.command(epilog=EXIT_CODES)
@sources_argument
@identifier_option
@verifier_options
@workers_option
@audit_option
@json_option
def verify(
    sources: tuple[str, ...],
    identifier: str,
    workers: int | None,
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Check whether pictures carry an identifier.

    SOURCES are files, folders or patterns. With --registry, only pictures that were marked with
    --id or one of its serials are accepted. With --workers, files are decoded in separate
    processes, which are killed if they use too much time or memory.
    """
    require_one(opening["watermark"], opening["bundle"], *BUNDLE_ONLY)
    if workers is not None:
        job = replace(open_job(identifier, **opening), digests=audit is not None)
        found = search(sources)
        rows = in_processes(job, [str(source.path) for source in found.pictures], workers)
        manifest = Bundle.open(job.bundle).manifest
        names = manifest.watermark, manifest.hash, manifest.version
        report(found, logged(rows, audit, identifier, *names), VERDICT_COLUMNS, as_json)
    with open_verifier(**opening) as verifier:
        check: Callable[[Any], Any] = partial(verifier.verify, messages=identifier)
        registry = verifier.lock.registry
        serials = [identifier] if registry is None else remembered_names(registry, identifier)
        if serials != [identifier]:
            check = partial(verifier.identify, messages=verifier.lock.book(serials))
        _check_all(verifier, sources, check, identifier, VERDICT_COLUMNS, audit, as_json)


@click.command(epilog=EXIT_CODES)
@sources_argument
@path_option("--ids", help="File of registered identifiers, one per line.")
@verifier_options
@audit_option
@json_option
def identify(
    sources: tuple[str, ...],
    ids: Path | None,
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Find out which registered identifier each picture carries.

    SOURCES are files, folders or patterns. Identifiers come from --ids or, without it, from
    --registry. A picture that carries none of them counts as rejected.
    """
    with open_verifier(**opening) as verifier:
        if ids is not None:
            names = read_identifiers(ids)
        elif verifier.lock.registry is not None:
            names = remembered_names(verifier.lock.registry)
        else:
            raise MessageError("name identifiers with --ids, or a registry with --registry")
        check = partial(verifier.identify, messages=verifier.lock.book(names))
        columns = {"label": "identifier", **VERDICT_COLUMNS}
        _check_all(verifier, sources, check, None, columns, audit, as_json)


def _check_all(
    verifier: PictureVerifier,
    sources: tuple[str, ...],
    check: Callable[[Any], Any],
    message: str | None,
    columns: dict[str, str],
    audit: Path | None,
    as_json: bool,
) -> NoReturn:
    """Check one picture after the other in this process."""

    def work(source: Source) -> Row:
        if audit is None:
            return check(source.path).to_dict()
        content = read_file(source.path, MOST_FILE_BYTES)
        return {**check(content).to_dict(), "sha256": sha256(content).hexdigest()}

    found = search(sources)
    bundle = getattr(verifier, "bundle", None)
    version = bundle.manifest.version if bundle else None
    names = verifier.watermark_name, verifier.hash_name, version
    report(found, logged(each(found, work), audit, message, *names), columns, as_json)


def open_job(
    identifier: str | None,
    bundle: Path,
    key_file: Path | None,
    fpr: float | None,
    registry: Path | None,
    runtime: tuple[str, str],
    trust: Any,
    watermark: None = None,
) -> VerificationJob:
    """The job for other processes; they work in other folders, so paths are absolute."""
    if registry is not None:
        require_registry(registry)
    if registry is not None and identifier is not None:
        names = remembered_names(Registry(registry), identifier)
        if names != [identifier]:
            raise MessageError(
                f"'{identifier}' stands for {len(names)} serials, but several processes look for "
                "only one: name a serial with --id, or leave out --workers"
            )
    name, precision = runtime
    return VerificationJob(
        bundle=str(Bundle.given(bundle, trust).path.resolve()),
        message=identifier,
        key_file=_resolved(key_file or os.environ.get(KEY_FILE_VARIABLE)),
        trust=trust,
        runtime=name,
        precision=precision,
        fpr=fpr,
        registry=_resolved(registry),
    )


def _resolved(path: Path | str | None) -> str | None:
    return str(Path(path).resolve()) if path else None
