"""``coverlock triton``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_export.triton import write_model_repository
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import Trusted, trust_option


@click.command()
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Repository.")
@click.option("--precision", default="fp32", show_default=True)
@click.option("--instances", type=click.IntRange(1), default=1, show_default=True, help="On a GPU.")
@trust_option
def triton(folder: Path, out: Path, precision: str, instances: int, trust: Trusted) -> None:
    """Write BUNDLE as a model repository for NVIDIA's Triton server.

    An engine of 'coverlock compile --target tensorrt' is used where a bundle that is checked with
    --trust has one, and the ONNX graph otherwise.
    """
    model = write_model_repository(Bundle.open(folder, trust), out, precision, instances)
    for file, reason in model.passed_over.items():
        click.echo(f"not {file}: {reason}", err=True)
    click.echo(f"model: {model.folder}")
    click.echo(f"serve it: tritonserver --model-repository={out}")
