"""``coverlock verify`` on several processes, and on a Ray cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.batch import VERDICT_COLUMNS, counted, finish, report
from coverlock_sdk.cli.chosen_messages import chosen_message
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.images.folders import search
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.scaling.job import VerificationJob


def make_job(
    identifier: str | None,
    bits: str | None,
    accept_unlocked: bool,
    needs_message: bool = True,
    **opening: Any,
) -> VerificationJob:
    """The job that options describe; other processes work in other folders: paths are absolute.

    Without a message, each row of the Parquet input has an identifier of its own.
    """
    bundle, message = Bundle.given(opening["bundle"], opening["trust"]), None
    if needs_message or identifier is not None or bits is not None:
        message = chosen_message(bundle.manifest.format.bits, identifier, bits)
    names = ("fpr", "rule", "runtime", "precision", "threads", "max_pixels")
    settings = {name: opening[name] for name in names}
    return VerificationJob(
        bundle=str(bundle.path.resolve()),
        message=tuple(map(int, message)) if identifier is None and message is not None else message,
        key_file=_resolved(opening["key_file"] or os.environ.get(KEY_FILE_VARIABLE)),
        trust=opening["trust"],
        accept_unlocked=accept_unlocked,
        **settings,
    )


def verify_in_processes(
    job: VerificationJob, sources: tuple[str, ...], workers: int, as_json: bool
) -> NoReturn:
    """Share the pictures out among processes of this machine."""
    from coverlock_sdk.scaling.pool import in_processes

    found = search(sources)
    rows = in_processes(job, [str(source.path) for source in found.pictures], workers)
    report(found, rows, VERDICT_COLUMNS, as_json)


def verify_on_cluster(
    job: VerificationJob,
    sources: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    roots: tuple[str, ...],
    as_json: bool,
) -> NoReturn:
    """Verify on Ray, and write the results to the folder ``out``."""
    if out is None:
        raise CoverLockError("name a folder for the results with --out")
    if ":/" in str(out):  # what a path makes of ://
        raise CoverLockError(
            f"results cannot be written to {out}: name a folder of this machine, or a mounted one"
        )
    with needs("--engine ray", "Ray", "ray"):
        from coverlock_sdk.scaling.ray_engine import verify_on_ray
    counts = verify_on_ray(job, sources, out, workers, roots)
    document = {"results": str(out), "counts": counts}
    answer(document, as_json, counted(counts), f"results are in {out}")
    finish(counts)


def _resolved(path: Path | str | None) -> str | None:
    return str(Path(path).resolve()) if path else None
