"""``coverlock serve``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.deployment import DeploymentOptions
from coverlock_sdk.cli.opening import require_registry
from coverlock_sdk.cli.options import (
    bundle_options,
    key_option,
    max_pixels_option,
    psnr_option,
    refuse_idle,
    registry_option,
)
from coverlock_sdk.cli.serving import ServicePlan
from coverlock_sdk.errors import AccessError, needs
from coverlock_sdk.serving.addresses import is_loopback, shown_address
from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.listening import bind
from coverlock_sdk.serving.tls import Certificate


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@key_option
@bundle_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, help="Port to listen on.")
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes, which share all limits.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Certificate chain in PEM, for HTTPS.",
)
@click.option(
    "--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="Its private key, in PEM."
)
@click.option(
    "--tokens",
    type=click.Path(path_type=Path),
    help="Token file (see 'coverlock token'). Without one only this machine can ask.",
)
@click.option("--max-bytes", default=20_000_000, show_default=True, help="Largest picture file.")
@max_pixels_option
@click.option(
    "--max-in-flight", default=64, show_default=True, help="Pictures at once; one more gets a 503."
)
@click.option(
    "--timeout", default=10.0, show_default=True, help="Seconds to receive, and to answer."
)
@click.option(
    "--max-rejections",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Rejections allowed per caller and message per hour; beyond that, HTTP 429.",
)
@click.option("--max-batch", default=32, show_default=True, help="Pictures run together.")
@click.option(
    "--max-delay-ms", default=2.0, show_default=True, help="How long one waits for others."
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    help="Write a line for each request to the standard error.",
)
@click.option("--audit", type=click.Path(path_type=Path), help="Append every verdict to this file.")
@click.option(
    "--ids",
    type=click.Path(path_type=Path),
    help="File of identifiers, one per line, that /identify chooses from; otherwise the names that "
    "--registry remembers.",
)
@registry_option
@click.option("--embed", is_flag=True, help="Mark pictures, too: /embed.")
@psnr_option
@click.option(
    "--resolution",
    type=click.Path(file_okay=False, path_type=Path),
    help="Repository of 'coverlock c2pa sign', whose manifests are found again over C2PA's API.",
)
def serve(
    bundles: tuple[Path, ...],
    key_file: Path | None,
    host: str,
    port: int,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tokens: Path | None,
    max_bytes: int,
    max_pixels: int,
    max_in_flight: int,
    timeout: float,
    max_rejections: int,
    log_format: str | None,
    workers: int,
    ids: Path | None,
    registry: Path | None,
    embed: bool,
    psnr: float | None,
    resolution: Path | None,
    **opening: Any,
) -> None:
    """Answer over HTTP whether pictures carry a message.

    POST the picture file to /verify?id=NAME; /docs explains the rest. Of several BUNDLES, such as
    an old and a new one, any may accept a picture, and the first marks.
    """
    with needs("the service", None, "serve"):
        import coverlock_sdk.serving.app  # noqa: F401
    if tokens is None and not is_loopback(host):
        raise AccessError(
            f"a service on {host} without --tokens would answer everybody: "
            "make a token with 'coverlock token', or use --host 127.0.0.1"
        )
    if not embed:
        refuse_idle("without --embed", "psnr")
        if registry is not None:
            require_registry(registry)
    limits = Limits(max_bytes, max_pixels, max_in_flight, timeout, max_rejections)
    options = DeploymentOptions(
        bundles,
        key_file,
        tokens,
        ids,
        registry,
        resolution,
        {**opening, "max_queue": max_in_flight},
        {"psnr": psnr, "max_pixels": max_pixels} if embed else None,
    )
    plan = ServicePlan(options, limits, _certificate(tls_certificate, tls_key), log_format)
    deployment = options.open()
    sockets = bind(host, port)
    where = shown_address(host, port, secure=plan.certificate is not None)
    named = ", ".join(map(str, bundles))
    click.echo(f"{named} on {deployment.first.runtime.name}: {where}", err=True)
    if workers == 1:
        plan.run(sockets, deployment)
    else:
        plan.run_several(sockets, deployment, workers)


def _certificate(chain: Path | None, key: Path | None) -> Certificate | None:
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise AccessError("HTTPS needs both --tls-certificate and --tls-key")
    certificate = Certificate(chain, key)
    certificate.context()  # what is wrong with it is said now
    return certificate
