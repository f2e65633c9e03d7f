"""``coverlock serve`` and ``coverlock token``"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, cast

import click

from coverlock_sdk.cli.options import bundle_options, chosen_keyring, key_option
from coverlock_sdk.errors import AccessError, needs
from coverlock_sdk.serving.access import SCOPES, Callers, Scope, add_token
from coverlock_sdk.verifier.verifier import Verifier

EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Hosts that mean every address of the machine, and the one under which it finds itself."""


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@key_option
@bundle_options
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True)
@click.option(
    "--tokens",
    type=click.Path(path_type=Path),
    help="Token file (see 'coverlock token'). Without one only this machine can ask.",
)
@click.option("--max-bytes", default=20_000_000, show_default=True, help="Of a picture file.")
@click.option("--max-pixels", default=50_000_000, show_default=True, help="Of a picture.")
@click.option(
    "--max-in-flight", default=64, show_default=True, help="Pictures at once; one more gets a 503."
)
@click.option("--timeout", default=10.0, show_default=True, help="Seconds to receive, to answer.")
@click.option("--max-batch", default=32, show_default=True, help="Pictures run together.")
@click.option("--max-delay-ms", default=2.0, show_default=True, help="How long one waits for more.")
@click.option("--audit", type=click.Path(path_type=Path), help="Append every verdict to this file.")
def serve(
    bundle: Path,
    key_file: Path | None,
    host: str,
    port: int,
    tokens: Path | None,
    max_bytes: int,
    max_pixels: int,
    max_in_flight: int,
    timeout: float,
    max_batch: int,
    max_delay_ms: float,
    audit: Path | None,
    **opening: Any,
) -> None:
    """Answer over HTTP whether pictures carry a message.

    POST the picture file to /verify?id=NAME. /healthz, /metrics and /docs explain the rest.
    """
    with needs("the service", None, "serve"):
        import uvicorn

        from coverlock_sdk.serving.app import Limits, create_app
    callers = Callers.load(tokens) if tokens else None
    if callers is None and not _is_loopback(host):
        raise AccessError(
            f"a service on {host} without --tokens would answer everybody: "
            "make a token with 'coverlock token', or use --host 127.0.0.1"
        )
    limits = Limits(max_bytes, max_pixels, max_in_flight, timeout)
    verifier = Verifier.open(
        bundle,
        key=chosen_keyring(key_file),
        max_batch=max_batch,
        max_delay_ms=max_delay_ms,
        max_queue=max_in_flight,
        audit=audit,
        **opening,
    )
    click.echo(f"{bundle} on {verifier.runtime.name}: {_address(host, port)}", err=True)
    uvicorn.run(
        create_app(verifier, callers, limits),
        host=host,
        port=port,
        access_log=False,  # identifiers are in the query
        log_level="warning",
        server_header=False,
        timeout_keep_alive=int(timeout),
        timeout_graceful_shutdown=int(2 * timeout) + 1,
    )


@click.command()
@click.argument("name")
@click.option("--file", type=click.Path(path_type=Path), required=True, help="Token file.")
@click.option(
    "--may",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("verify",),
    show_default=True,
    help="Repeatable. 'detail' shows p-values, which help an attacker.",
)
@click.option("--rate", default=10.0, show_default=True, help="Requests a second.")
@click.option("--burst", default=20, show_default=True, help="Requests at once.")
def token(name: str, file: Path, scopes: tuple[str, ...], rate: float, burst: int) -> None:
    """Make a token with which NAME may ask a service, and print it.

    The file keeps only its digest, so note the token now. A token that NAME had is replaced.
    """
    click.echo(add_token(file, name, cast("tuple[Scope, ...]", scopes), rate, burst))


def _address(host: str, port: int) -> str:
    """Where this machine finds the service: 0.0.0.0 and :: mean every address, and none to open."""
    bracketed = f"[{host}]" if ":" in host else host
    if host in EVERY_ADDRESS:
        return f"http://{EVERY_ADDRESS[host]}:{port}/docs (listening on {bracketed}:{port})"
    return f"http://{bracketed}:{port}/docs"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
