"""``coverlock verify``"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.batch import finish, process, report
from coverlock_sdk.cli.options import (
    bundle_options,
    chosen_message,
    json_option,
    key_option,
    message_options,
    open_lock,
    rule_option,
)
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.images.folders import Source, find_pictures
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.progress import progress
from coverlock_sdk.scaling.job import VerificationJob

COLUMNS = {"matches": "matches", "bits": "of", "p_value": "p", "key_id": "key"}


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-w", "--watermark", help="Name of a watermark plugin.")
@click.option("--bundle", type=click.Path(path_type=Path), help="A deployed bundle instead.")
@click.option("--hash", help=f"Image hash, with -w.  [default: {DEFAULT_HASH}]")
@key_option
@click.option("--fpr", type=float, help=f"[default: {DEFAULT_FPR:g}, or the bundle's]")
@rule_option
@click.option(
    "--accept-unlocked",
    is_flag=True,
    help="Also accept pictures marked before the lock was introduced.",
)
@message_options
@bundle_options
@click.option("--workers", type=click.IntRange(1), help="Processes, with --bundle.  [default: 1]")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Ray verifies on a cluster, and takes Parquet and object stores too.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for Ray's results.")
@json_option
def verify(
    sources: tuple[str, ...],
    watermark: str | None,
    bundle: Path | None,
    hash: str | None,
    key_file: Path | None,
    fpr: float | None,
    rule: Any,
    accept_unlocked: bool,
    identifier: str | None,
    bits: str | None,
    workers: int | None,
    engine: str,
    out: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Say of pictures whether they carry a message.

    SOURCES are files, folders or patterns. The exit code is 0 when every picture is accepted,
    1 when some are rejected, 2 when some could not be processed.
    """
    if (watermark is None) == (bundle is None):
        raise CoverLockError("name either a watermark with --watermark or a bundle with --bundle")
    if watermark is not None:
        if workers or engine == "ray":
            raise CoverLockError("several processes need a bundle: see 'coverlock export'")
        lock = open_lock(watermark, hash or DEFAULT_HASH, key_file, fpr or DEFAULT_FPR, rule)
        message = chosen_message(lock.bits, identifier, bits)

        def work(source: Source) -> tuple[bool, dict[str, Any]]:
            verdict = lock.verify(source.path, message, accept_unlocked=accept_unlocked)
            return verdict.accepted, verdict.to_dict()

        process(find_pictures(sources), work, COLUMNS, as_json)
        return
    assert bundle is not None
    if hash is not None:
        raise CoverLockError("a bundle has its own hash: leave out --hash")
    job = VerificationJob(
        bundle=str(bundle.resolve()),
        message=_message(bundle, identifier, bits, engine),
        key_file=_resolved(key_file or os.environ.get(KEY_FILE_VARIABLE)),
        trust=_resolved(opening.pop("trust")),
        fpr=fpr,
        rule=rule,
        accept_unlocked=accept_unlocked,
        **opening,
    )
    if engine == "ray":
        _on_ray(job, sources, out, workers, as_json)
    else:
        _on_this_machine(job, sources, workers or 1, as_json)


def _resolved(path: Path | str | None) -> str | None:
    """A path that means the same to processes that work in another folder."""
    return str(Path(path).resolve()) if path else None


def _message(bundle: Path, identifier: str | None, bits: str | None, engine: str) -> Any:
    if engine == "ray" and identifier is None and bits is None:
        return None  # then each row of the Parquet input has an identifier of its own
    message = chosen_message(Bundle.open(bundle).manifest.format.bits, identifier, bits)
    return message if isinstance(message, str) else tuple(int(bit) for bit in message)


def _on_this_machine(
    job: VerificationJob, sources: tuple[str, ...], workers: int, as_json: bool
) -> None:
    from coverlock_sdk.scaling.pool import verify_files

    files = [str(source.path) for source in find_pictures(sources)]
    rows = progress(
        verify_files(job, files, workers),
        total=len(files),
        quiet=len(files) == 1,
    )
    report(list(rows), COLUMNS, as_json)


def _on_ray(
    job: VerificationJob,
    sources: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    if out is None:
        raise CoverLockError("name a folder for the results with --out")
    if ":/" in str(out):  # what a path makes of ://
        raise CoverLockError(
            f"results cannot be written to {out}: name a folder of this machine, or a mounted one"
        )
    with needs("--engine ray", "Ray", "ray"):
        from coverlock_sdk.scaling.ray_engine import verify_on_ray
    counts = verify_on_ray(job, sources, out, workers)
    if as_json:
        click.echo(json.dumps({"results": str(out), "counts": counts}, indent=2))
    else:
        click.echo(", ".join(f"{count} {status}" for status, count in counts.items() if count))
        click.echo(f"results: {out}", err=True)
    finish(counts)
