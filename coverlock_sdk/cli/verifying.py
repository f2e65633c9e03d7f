"""``coverlock verify`` and ``identify``: here, in several processes, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli import EXIT_CODES
from coverlock_sdk.cli.options import (
    BUNDLE_ONLY,
    audit_option,
    chosen_message,
    json_option,
    message_options,
    open_verifier,
    path_option,
    refuse_idle,
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
    answer,
    counted,
    each,
    finish,
    logged,
    picture_and_digest,
    report,
)
from coverlock_sdk.errors import CoverLockError, MessageError, needs
from coverlock_sdk.images.folders import Source, search
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.picture_verifier import PictureVerifier
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.scaling.job import VerificationJob

Check = Callable[[Any], Any]
"""What verifies or identifies one picture."""

OF_JOBS = ("fpr", "runtime", "precision", "max_pixels")
"""Options of the command that a job takes as they are."""


@click.command(epilog=EXIT_CODES)
@sources_argument
@message_options
@verifier_options
@workers_option
@path_option(
    "--ray",
    metavar="FOLDER",
    help="Verify on a Ray cluster, also from Parquet and object stores; results go to FOLDER.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    help="With --ray, another folder or URI whose pictures Parquet rows may name. Repeatable.",
)
@audit_option
@json_option
def verify(
    sources: tuple[str, ...],
    identifier: str | None,
    bits: str | None,
    workers: int | None,
    ray: Path | None,
    roots: tuple[str, ...],
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Check whether pictures carry a message.

    SOURCES are files, folders or patterns. With --registry, a picture is accepted if it is the one
    that was marked with --id or one of its serials. With --workers or --ray, files are decoded in
    processes that are killed if they take too much time or memory.
    """
    require_one(opening["watermark"], opening["bundle"], BUNDLE_ONLY, ("hash",))
    if opening["registry"] is not None and bits is not None:
        raise MessageError("a registry knows pictures by identifier: use --id instead of --bits")
    if ray is None:
        refuse_idle("without --ray", "roots")
    if ray is not None or workers is not None:
        job = _job(identifier, bits, ray is not None, audit is not None, opening)
        if ray is not None:
            _verify_on_cluster(job, sources, ray, workers, roots, audit, as_json)
        _verify_in_processes(job, sources, workers or 1, audit, as_json)
    with open_verifier(**opening) as verifier:
        message = chosen_message(verifier.bits, identifier, bits)
        check: Check = partial(verifier.verify, messages=message)
        registry = verifier.lock.registry
        names = remembered_names(registry, identifier) if registry is not None else [identifier]
        if names != [identifier]:
            check = partial(verifier.identify, messages=verifier.lock.checked_book(names))
        _check_all(verifier, sources, check, message, VERDICT_COLUMNS, audit, as_json)


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

    SOURCES are files, folders or patterns. Identifiers come from --ids; without it, they
    are those that --registry remembers. A picture without any of them counts as rejected.
    """
    if ids is None and opening["registry"] is None:
        raise MessageError("name a file of identifiers with --ids, or a registry with --registry")
    names = read_identifiers(ids) if ids else None
    with open_verifier(**opening) as verifier:
        if names is None:
            assert verifier.lock.registry is not None
            names = remembered_names(verifier.lock.registry)
        check = partial(verifier.identify, messages=verifier.lock.checked_book(names))
        columns = {"label": "identifier", **VERDICT_COLUMNS}
        _check_all(verifier, sources, check, None, columns, audit, as_json)


def _check_all(
    verifier: PictureVerifier,
    sources: tuple[str, ...],
    check: Check,
    message: Any,
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


def _job(
    identifier: str | None, bits: str | None, on_ray: bool, digests: bool, opening: dict[str, Any]
) -> VerificationJob:
    """The job for other processes; they work in other folders, so paths are absolute.

    On Ray the message may be missing: then each Parquet row has an identifier of its own.
    """
    if opening["registry"] is not None:
        _require_name(opening["registry"], identifier)
    bundle, message = Bundle.given(opening["bundle"], opening["trust"]), None
    if not on_ray or identifier is not None or bits is not None:
        message = chosen_message(bundle.manifest.message_bits, identifier, bits)
    return VerificationJob(
        bundle=str(bundle.path.resolve()),
        message=tuple(map(int, message)) if identifier is None and message is not None else message,
        key_file=_resolved(opening["key_file"] or os.environ.get(KEY_FILE_VARIABLE)),
        trust=opening["trust"],
        registry=_resolved(opening["registry"]),
        digests=digests and not on_ray,
        **{name: opening[name] for name in OF_JOBS},
    )


def _require_name(registry: Path, identifier: str | None) -> None:
    """Refuse an identifier that stands for many serials: a job looks for one."""
    require_registry(registry)
    names = [] if identifier is None else remembered_names(Registry(registry), identifier)
    if names and names != [identifier]:
        raise MessageError(
            f"'{identifier}' stands for {len(names)} serials, but --workers and --ray look for "
            "only one: name a serial with --id, or leave them out"
        )


def _resolved(path: Path | str | None) -> str | None:
    return str(Path(path).resolve()) if path else None


def _verify_in_processes(
    job: VerificationJob, sources: tuple[str, ...], workers: int, audit: Path | None, as_json: bool
) -> NoReturn:
    from coverlock_sdk.scaling.pool import in_processes

    found = search(sources)
    rows = in_processes(job, [str(source.path) for source in found.pictures], workers)
    manifest = Bundle.open(job.bundle).manifest
    names = manifest.watermark, manifest.hash, manifest.version
    report(found, logged(rows, audit, job.message, *names), VERDICT_COLUMNS, as_json)


def _verify_on_cluster(
    job: VerificationJob,
    sources: tuple[str, ...],
    out: Path,
    workers: int | None,
    roots: tuple[str, ...],
    audit: Path | None,
    as_json: bool,
) -> NoReturn:
    if ":/" in str(out):  # what a path makes of ://
        raise CoverLockError(
            f"results cannot be written to {out}: name a folder on this machine, or a mounted one"
        )
    with needs("--ray", "Ray", "ray"):
        from coverlock_sdk.scaling.cluster import verify_on_ray
    counts = verify_on_ray(job, sources, out, workers, roots, audit)
    document = {"results": str(out), "counts": counts}
    answer(document, as_json, counted(counts), f"results are in {out}")
    finish(counts)
