"""``coverlock export`` and ``coverlock compile``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from coverlock_export.tensorrt import BATCHES, compile_bundle
from coverlock_sdk.bundles.bundle import LONGEST_VERSION, Bundle
from coverlock_sdk.bundles.engines import TARGETS, Target
from coverlock_sdk.bundles.signing import SIGNATURE
from coverlock_sdk.cli.options import Trusted, json_option, open_lock, path_option, trust_option
from coverlock_sdk.cli.output import print_json
from coverlock_sdk.errors import BundleError, needs
from coverlock_sdk.images.folders import find_pictures
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.progress import working

PRECISIONS = ("fp32", "fp16", "int8")


@click.command()
@click.argument("watermark")
@path_option("-o", "--out", required=True, help="Folder for the bundle; it must not exist yet.")
@click.option(
    "--images",
    required=True,
    help="Folder of at least 32 photos, for calibration and for the parity check.",
)
@click.option(
    "--count",
    default=500,
    type=click.IntRange(16),
    help="Maximum number of photos for the parity check.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    default=PRECISIONS,
    type=click.Choice(PRECISIONS),
    help="Precision of the graphs. Repeatable.",
)
@click.option("--force", is_flag=True, help="Keep fp16 and int8 graphs that fail the parity check.")
@path_option(
    "--key-file",
    help="Key file that marks the pictures; the bundle stores only its fingerprint.",
    show_default=f"${KEY_FILE_VARIABLE}, if it is set",
)
@click.option("--version", help="Version name of this bundle, such as 2026.11.")
@click.option("--fpr", default=DEFAULT_FPR, help="False-positive rate.")
@json_option
def export(
    watermark: str,
    out: Path,
    images: str,
    count: int,
    precisions: tuple[str, ...],
    force: bool,
    key_file: Path | None,
    version: str | None,
    fpr: float,
    as_json: bool,
) -> None:
    """Export WATERMARK and a hash as one graph, in a bundle that the Verifier can open.

    WATERMARK is NAME or NAME:OPTION=VALUE,...; the option hash=NAME selects a different hash.

    The last step, the parity check, runs the graphs on your photos. If a graph's results differ
    from the SDK's, the export fails and writes nothing.
    """
    if version is not None and not 0 < len(version) <= LONGEST_VERSION:
        raise BundleError(f"a version has 1 to {LONGEST_VERSION} characters")
    with needs("an export", None, "export,cpu"):
        from coverlock_export.exporting import ExportRequest, export_bundle
    lock = open_lock(watermark, key_file=key_file, fpr=fpr)
    photos = [source.path for source in find_pictures([images])]
    request = ExportRequest(lock, photos, precisions, force, count, version=version)
    bundle = export_bundle(request, out)
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
    if reason := parity["embed"].get("left_out"):
        click.echo(f"no embed.onnx: {reason}")
    if plugin := bundle.manifest.plugin:
        package = f"{plugin.distribution}=={plugin.version}"
        click.echo(
            f"no network decodes '{watermark}': verifying machines need {package} as well, with "
            "what this plugin imports"
        )
    click.echo(f"bundle: {out}")


@click.command("compile")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--target", type=click.Choice(TARGETS), default="tensorrt-rtx", help="What to build for."
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    show_default="all in the bundle",
    help="Precision to build. Repeatable.",
)
@click.option(
    "--batches",
    nargs=3,
    type=click.IntRange(1),
    default=BATCHES,
    help="Smallest, usual and largest batch.",
)
@trust_option
@json_option
def compile_command(
    folder: Path,
    target: Target,
    precisions: tuple[str, ...],
    batches: tuple[int, int, int],
    trust: Trusted,
    as_json: bool,
) -> None:
    """Build TensorRT engines from the verification graph of BUNDLE and put them into it.

    'tensorrt-rtx' builds for every RTX GPU from Ampere on and needs no GPU. 'tensorrt' builds for
    the kind of GPU in this machine, such as an A100 or H100. An existing engine is kept. A signed
    bundle needs --trust.
    """
    signed = (folder / SIGNATURE).exists()
    if signed and trust is None:
        raise BundleError(
            f"{folder} is signed, and you will have to sign all of it again: "
            "name the public key with --trust, so that its files are checked first"
        )
    bundle = Bundle.open(folder, trust)
    if not precisions:
        bundle.file()  # or an error that says why there is no such graph
        precisions = tuple(bundle.manifest.graphs["verify"])
    with working(f"{target} is building"):
        made = list(compile_bundle(bundle, {"verify": list(precisions)}, batches, target))
    if as_json:
        print_json([{"file": c.engine.file, **asdict(c.engine), "built": c.built} for c in made])
    else:
        for compiled in made:
            click.echo(f"{'built' if compiled.built else 'kept '} {compiled.engine.file}")
    if signed and any(compiled.built for compiled in made):
        click.echo(f"the bundle changed: sign it again with 'coverlock sign {folder}'", err=True)
