"""``coverlock export``"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from coverlock_export.triton import write_model_repository
from coverlock_sdk.bundles.bundle import LONGEST_VERSION
from coverlock_sdk.cli.answers import print_json
from coverlock_sdk.cli.opening import open_lock
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import BundleError, needs
from coverlock_sdk.images.folders import find_pictures
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE

PRECISIONS = ("fp32", "fp16", "int8")


@click.command()
@click.argument("watermark")
@click.option("--hash", default=DEFAULT_HASH, show_default=True, help="Image hash.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the bundle; it must not exist.",
)
@click.option(
    "--images",
    required=True,
    help="Folder of photos, at least 32: for calibration and for the parity gate.",
)
@click.option(
    "--count",
    default=500,
    show_default=True,
    type=click.IntRange(16),
    help="At most so many photos in the parity gate.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    default=PRECISIONS,
    show_default=True,
    type=click.Choice(PRECISIONS),
    help="May be repeated.",
)
@click.option("--force", is_flag=True, help="Keep fp16 and int8 graphs that fail the gate.")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path),
    help=f"Key the pictures are marked with, or {KEY_FILE_VARIABLE}; only its fingerprint is kept.",
)
@click.option("--version", help="Name of this bundle among others, such as 2026.11.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True, help="False-positive rate.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--triton",
    "repository",
    type=click.Path(path_type=Path),
    help="Also write a model repository for Triton; 'coverlock triton' does so later.",
)
@click.option(
    "--web",
    "site",
    type=click.Path(path_type=Path),
    help="Also write a page that verifies in a browser; 'coverlock web' does so later.",
)
@json_option
def export(
    watermark: str,
    hash: str,
    out: Path,
    images: str,
    count: int,
    precisions: tuple[str, ...],
    force: bool,
    key_file: Path | None,
    version: str | None,
    fpr: float,
    seed: int,
    repository: Path | None,
    site: Path | None,
    as_json: bool,
) -> None:
    """Export WATERMARK and a hash as one graph, in a bundle that the Verifier opens.

    The export ends by running the graphs on photos. It fails, and writes nothing, when they do
    not answer as the SDK does.
    """
    if version is not None and not 0 < len(version) <= LONGEST_VERSION:
        raise BundleError(f"a version has 1 to {LONGEST_VERSION} characters")
    with needs("an export", None, "export,cpu"):
        from coverlock_export.exporting import Request, export_bundle
    lock = open_lock(watermark, hash, key_file, fpr)
    if site is not None:
        from coverlock_web.site import require_page, write_site

        require_page(lock)
    photos = [source.path for source in find_pictures([images])]
    request = Request(lock, photos, precisions, force, count, seed, version)
    with _shown() as steps:
        bundle = export_bundle(request, out, steps)
    if repository is not None:
        write_model_repository(bundle, repository)
    if site is not None:
        write_site(bundle, lock, site)
    parity = bundle.manifest.parity
    if as_json:
        report = {"bundle": str(out), "files": dict(bundle.manifest.files), "parity": parity}
        print_json(report)
        return
    for name, figures in parity["graphs"].items():
        click.echo(
            f"{name}: {figures['bits']:.4%} of bits and {figures['verdicts']:.2%} of verdicts "
            f"agree with the SDK, on {figures['photos']} photos"
        )
    resized = parity["other_sizes"]
    click.echo(
        f"other sizes, rounded to 8 bits: {resized['bits']:.4%} of bits and "
        f"{resized['verdicts']:.2%} of verdicts, on {resized['photos']} photos"
    )
    if reason := parity["embed"].get("left_out"):
        click.echo(f"no embed.onnx: {reason}")
    click.echo(f"bundle: {out}")


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[str, int], Callable[[], None]]]:
    """The steps of an export as bars on the terminal."""
    console = Console(stderr=True)
    with Progress(*Progress.get_default_columns(), console=console, transient=True) as bars:

        def begin(what: str, total: int) -> Callable[[], None]:
            task = bars.add_task(what, total=total)
            return lambda: bars.advance(task)

        yield begin
