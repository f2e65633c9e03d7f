"""``coverlock verify`` and ``identify``, here or in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from coverlock_sdk.cli.output import (
    VERDICT_COLUMNS,
    Row,
    each,
    logged,
    picture_and_digest,
    report,
)
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.folders import Source, search
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.picture_verifier import PictureVerifier
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.scaling.job import VerificationJob
from coverlock_sdk.scaling.pool import in_processes

Check = Callable[[Any], Any]
"""What verifies or identifies one picture."""


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
    --id or one of its serials are accepted. With --workers, files are decoded in processes that are
    killed if they take too much time or memory.
    """
    require_one(opening["watermark"], opening["bundle"], *BUNDLE_ONLY)
    if workers is not None:
        _verify_in_processes(open_job(identifier, **opening), sources, workers, audit, as_json)
    with open_verifier(**opening) as verifier:
        check: Check = partial(verifier.verify, messages=identifier)
        registry = verifier.lock.registry
        names = remembered_names(registry, identifier) if registry is not None else [identifier]
        if names != [identifier]:
            check = partial(verifier.identify, messages=verifier.lock.book(names))
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
    if ids is None and opening["registry"] is None:
        raise MessageError("name a file of identifiers with --ids, or a registry with --registry")
    names = read_identifiers(ids) if ids else None
    with open_verifier(**opening) as verifier:
        if names is None:
            assert verifier.lock.registry is not None
            names = remembered_names(verifier.lock.registry)
        check = partial(verifier.identify, messages=verifier.lock.book(names))
        columns = {"label": "identifier", **VERDICT_COLUMNS}
        _check_all(verifier, sources, check, None, columns, audit, as_json)


def _check_all(
    verifier: PictureVerifier,
    sources: tuple[str, ...],
    check: Check,
    message: str | None,
    columns: dict[str, str],
    audit: Path | None,
    as_json: bool,
) -> NoReturn:
    """Check one picture after the other in this process."""

    def work(source: Source) -> Row:
        picture, digest = picture_and_digest(source.path, audit)
        return {**check(picture).to_dict(), **digest}

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
        _require_name(registry, identifier)
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


def _require_name(registry: Path, identifier: str | None) -> None:
    """Refuse an identifier that stands for many serials: a job looks for one."""
    require_registry(registry)
    names = [] if identifier is None else remembered_names(Registry(registry), identifier)
    if names and names != [identifier]:
        raise MessageError(
            f"'{identifier}' stands for {len(names)} serials, but several processes look for only "
            "one: name a serial with --id, or leave out --workers"
        )


def _resolved(path: Path | str | None) -> str | None:
    return str(Path(path).resolve()) if path else None


def _verify_in_processes(
    job: VerificationJob, sources: tuple[str, ...], workers: int, audit: Path | None, as_json: bool
) -> NoReturn:
    job, found = replace(job, digests=audit is not None), search(sources)
    rows = in_processes(job, [str(source.path) for source in found.pictures], workers)
    manifest = Bundle.open(job.bundle).manifest
    names = manifest.watermark, manifest.hash, manifest.version
    report(found, logged(rows, audit, job.message, *names), VERDICT_COLUMNS, as_json)
