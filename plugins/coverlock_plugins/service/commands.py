"""``coverlock serve`` and ``coverlock token``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from coverlock_plugins.service.access import SCOPES, Callers, Limits, Scope, add_token
from coverlock_plugins.service.deployment import Deployment
from coverlock_sdk import CoverLockError, Embedder, Registry, Settings, Verifier
from coverlock_sdk.addresses import is_loopback
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import (
    Trusted,
    audit_option,
    chosen_keyring,
    key_option,
    path_option,
    registry_option,
    require_registry,
    runtime_option,
    trust_option,
)
from coverlock_sdk.errors import needs
from coverlock_sdk.loading import parse_setting
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.verifier.runtimes import AUTO


def _chosen_address(context: click.Context, option: click.Parameter, given: str) -> tuple[str, int]:
    """The host and the port of HOST:PORT, with IPv6 hosts in brackets."""
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"'{given}' is not HOST:PORT, such as 127.0.0.1:8000")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _shown(limits: Limits) -> str:
    """The limits and their defaults, for ``--help``."""
    shown = msgspec.structs.asdict(limits)
    return ", ".join(name if value is None else f"{name}={value}" for name, value in shown.items())


def open_deployment(
    path: Path,
    limits: Limits,
    *,
    key_file: Path | None = None,
    trust: Trusted = None,
    runtime: tuple[str, str] = (AUTO, Settings.precision),
    tokens: Path | None = None,
    ids: Path | None = None,
    registry: Path | None = None,
    audit: Path | None = None,
    embed: bool = False,
    routes: tuple[str, ...] = (),
) -> Deployment:
    """Open the files of a service as they are now."""
    callers = Callers.load(tokens) if tokens else None
    remembered = Registry(registry) if registry else None
    names: Sequence[str] = read_identifiers(ids) if ids else []
    if remembered is not None and not names:
        names = remembered.names()
    bundle = Bundle.given(path, trust)
    rights: dict[str, Any] = {"key": chosen_keyring(key_file), "registry": remembered}
    name, precision = runtime
    settings = Settings(precision, max_queue=limits.in_flight, audit=audit)
    with contextlib.ExitStack() as opened:
        verifier = opened.enter_context(Verifier.open(bundle, name, **rights, settings=settings))
        book = verifier.lock.book(names) if names else None
        marking: dict[str, Any] = {**rights, "psnr": limits.psnr, "max_pixels": limits.pixels}
        embedder = Embedder.open(bundle, **marking) if embed else None
        create = plugin_manager().create
        added = tuple(create("routes", *parse_setting(setting)) for setting in routes)
        opened.pop_all()  # the deployment closes it from now on
    return Deployment(verifier, callers, book, embedder, remembered, added)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@key_option
@runtime_option
@trust_option
@click.option(
    "--listen",
    default="127.0.0.1:8000",
    metavar="HOST:PORT",
    callback=_chosen_address,
    help="Address to listen on.",
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Confirm that a proxy in front handles TLS and limits connections. Required to listen on "
    "an address that other machines can reach.",
)
@path_option(
    "--tokens",
    help="Token file (see 'coverlock token'). Without one, only this machine may use the service.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda context, option, given: Limits.chosen(given),
    show_default=False,
    help=f"Change a limit; the defaults are {_shown(Limits())}. Repeatable.",
)
@audit_option
@path_option(
    "--ids",
    help="File of identifiers, one per line, for /identify.",
    show_default="the identifiers in --registry",
)
@registry_option
@click.option("--embed", is_flag=True, help="Also mark pictures, at /embed.")
@click.option(
    "--routes",
    multiple=True,
    metavar="NAME:OPTION=VALUE",
    help="Routes that a plugin adds, such as c2pa:repository=FOLDER,trust=FILE. Repeatable.",
)
def serve(
    bundle: Path,
    listen: tuple[str, int],
    behind_proxy: bool,
    limits: Limits,
    **options: Any,
) -> None:
    """Run an HTTP service that checks whether pictures carry an identifier.

    POST a picture file to /verify?id=NAME; /openapi.json describes the rest. The log goes to
    standard error, as JSON lines.
    """
    with needs("the service", None, "serve"):
        from coverlock_plugins.service.observing import log_as_json
        from coverlock_plugins.service.server import bind, run
        from coverlock_plugins.service.service import Service
    host, port = listen
    if not is_loopback(host) and not (options["tokens"] and behind_proxy):
        raise CoverLockError(
            f"without --tokens, a service on {host} would answer anybody, and it needs a proxy in "
            "front that handles TLS and limits connections (examples/deploy has one for nginx): "
            "pass --tokens and --behind-proxy, or use --listen 127.0.0.1:8000"
        )
    if not options["embed"]:
        if limits.psnr is not None:
            raise CoverLockError("the limit psnr does nothing without --embed: leave it out")
        if options["registry"] is not None:
            require_registry(options["registry"])
    service = Service(partial(open_deployment, bundle, limits, **options), limits)
    with bind(host, port) as bound:
        runtime = service.deployment.verifier.runtime.name
        where = f"[{host}]" if ":" in host else host
        click.echo(f"{bundle} on {runtime}: http://{where}:{bound.getsockname()[1]}", err=True)
        log_as_json()
        run(service, bound)


@click.command()
@click.argument("name")
@path_option("--file", required=True, help="Token file.")
@click.option(
    "--may",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("verify",),
    help="What NAME may ask for. Repeatable. Keep 'detail' for your own staff: it shows p-values, "
    "which help an attacker, and has no limit on rejections.",
)
@click.option("--rate", default=10.0, help="Requests allowed per second.")
@click.option("--burst", default=20, help="Requests allowed at once.")
@click.option(
    "--prefix",
    "prefixes",
    multiple=True,
    help="Prefix of identifiers that NAME may mark at /embed. Repeatable.",
    show_default="any",
)
def token(name: str, file: Path, scopes: tuple[Scope, ...], **rights: Any) -> None:
    """Make a token that lets NAME use a service, and print it.

    The file keeps only its digest, so save the token now. It replaces NAME's earlier token.
    """
    click.echo(add_token(file, name, scopes, **rights))
