"""``coverlock verify`` on several processes, and on a Ray cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.batch import VERDICT_COLUMNS, counted, finish, report
from coverlock_sdk.cli.recording import logged
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.images.folders import search
from coverlock_sdk.scaling.job import VerificationJob


def verify_in_processes(
    job: VerificationJob,
    sources: tuple[str, ...],
    workers: int,
    audit: Path | None,
    as_json: bool,
) -> NoReturn:
    """Share the pictures out among processes of this machine."""
    from coverlock_sdk.scaling.pool import in_processes

    found = search(sources)
    job = replace(job, digests=audit is not None)
    rows = in_processes(job, [str(source.path) for source in found.pictures], workers)
    manifest = Bundle.open(job.bundle).manifest
    names = manifest.watermark, manifest.hash, manifest.version
    report(found, logged(rows, audit, job.message, *names), VERDICT_COLUMNS, as_json)


def verify_on_cluster(
    job: VerificationJob,
    sources: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    roots: tuple[str, ...],
    audit: Path | None,
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
    counts = verify_on_ray(job, sources, out, workers, roots, audit)
    document = {"results": str(out), "counts": counts}
    answer(document, as_json, counted(counts), f"results are in {out}")
    finish(counts)
