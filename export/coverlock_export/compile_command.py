"""``coverlock compile``"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from coverlock_export.tensorrt import BuildSettings, Compiled, compile_bundle
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.compiled_engines import TARGETS, Target
from coverlock_sdk.bundles.signatures import SIGNATURES
from coverlock_sdk.cli.answers import print_json
from coverlock_sdk.cli.options import Trusted, json_option, trust_option
from coverlock_sdk.errors import BundleError


@click.command("compile")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--target", type=click.Choice(TARGETS), required=True)
@click.option(
    "--graph", "graphs", multiple=True, default=("verify",), show_default=True, help="Repeatable."
)
@click.option("--precision", "precisions", multiple=True, help="Repeatable; otherwise all.")
@click.option(
    "--batches",
    nargs=3,
    type=click.IntRange(1),
    default=(1, 8, 32),
    show_default=True,
    help="Smallest, usual and largest batch.",
)
@click.option("--portable", is_flag=True, help="For every GPU from Ampere on.")
@click.option("--version-compatible", is_flag=True, help="For later TensorRT versions too.")
@click.option("--optimization-level", type=click.IntRange(0, 5), default=3, show_default=True)
@trust_option
@json_option
def compile_command(
    folder: Path,
    target: Target,
    graphs: tuple[str, ...],
    precisions: tuple[str, ...],
    batches: tuple[int, int, int],
    portable: bool,
    version_compatible: bool,
    optimization_level: int,
    trust: Trusted,
    as_json: bool,
) -> None:
    """Build TensorRT engines from the graphs of BUNDLE and put them into it.

    'tensorrt' builds for this machine's GPU. 'tensorrt-rtx' builds for every RTX GPU from Ampere
    on and needs none. An engine that is there already is kept. A signed bundle needs --trust.
    """
    signed = any((folder / name).exists() for name in SIGNATURES)
    if signed and trust is None:
        raise BundleError(
            f"{folder} is signed, and you will sign everything in it anew: "
            "name the public key with --trust, so that its files are checked first"
        )
    bundle = Bundle.open(folder, trust)
    settings = BuildSettings(target, batches, portable, version_compatible, optimization_level)
    wanted = {graph: list(precisions) or _precisions(bundle, graph) for graph in graphs}
    with Console(stderr=True).status(f"{target} is building"):
        made = list(compile_bundle(bundle, settings, wanted))
    if as_json:
        print_json([_report(compiled) for compiled in made])
    else:
        for compiled in made:
            click.echo(f"{'built' if compiled.built else 'kept '} {compiled.engine.file}")
            click.echo(f"      {compiled.command}")
    if signed and any(compiled.built for compiled in made):
        click.echo(f"the bundle changed: sign it again with 'coverlock sign {folder}'", err=True)


def _precisions(bundle: Bundle, graph: str) -> list[str]:
    if graph not in bundle.manifest.graphs:
        there = ", ".join(bundle.manifest.graphs)
        raise BundleError(f"{bundle.path} has no graph '{graph}': it has {there}")
    return list(bundle.manifest.graphs[graph])


def _report(compiled: Compiled) -> dict[str, object]:
    entry = compiled.engine.to_entry()
    return {**entry, "built": compiled.built, "command": compiled.command}
