"""``coverlock serve`` and ``coverlock token``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from coverlock_plugins.service.access import SCOPES, Callers, Limits, Scope, add_token
from coverlock_plugins.service.deployment import Deployment, Routes
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
from coverlock_sdk.embedder import Embedder
from coverlock_sdk.errors import AccessError, CoverLockError, needs
from coverlock_sdk.loading import parse_setting
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.verifier.runtimes import AUTO
from coverlock_sdk.verifier.verifier import Settings, Verifier


def open_routes(setting: str) -> Routes:
    """The routes that NAME or NAME:OPTION=VALUE describes."""
    name, options = parse_setting(setting)
    return cast("Routes", plugin_manager().create("routes", name, options))


def _chosen_address(context: click.Context, option: click.Parameter, given: str) -> tuple[str, int]:
    """The host and the port of HOST:PORT, where a host of IPv6 stands in brackets."""
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"'{given}' is not HOST:PORT, such as 127.0.0.1:8000")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _shown(limits: Limits) -> str:
    """The limits and their defaults, for ``--help``."""
    shown = msgspec.structs.asdict(limits)
    return ", ".join(name if value is None else f"{name}={value}" for name, value in shown.items())


@dataclass(frozen=True)
class DeploymentOptions:
    """Files and settings of a service, opened at its start and at each reload."""

    bundles: tuple[Path, ...]
    key_file: Path | None = None
    trust: Trusted = None
    runtime: tuple[str, str] = (AUTO, Settings.precision)
    """A name, and a precision."""
    tokens: Path | None = None
    ids: Path | None = None
    registry: Path | None = None
    audit: Path | None = None
    embed: bool = False
    """Whether the service marks pictures too."""
    routes: tuple[str, ...] = ()
    """Routes of plugins, as NAME:OPTION=VALUE."""
    limits: Limits = field(default_factory=Limits)

    def open(self) -> Deployment:
        """Open everything as the files are now."""
        keyring = chosen_keyring(self.key_file)
        callers = Callers.load(self.tokens) if self.tokens else None
        registry = Registry(self.registry) if self.registry else None
        names: Sequence[str] = read_identifiers(self.ids) if self.ids else []
        if registry is not None and not names:
            names = registry.names()
        bundles = [Bundle.given(path, self.trust) for path in self.bundles]
        rights: dict[str, Any] = {"key": keyring, "registry": registry}
        runtime, precision = self.runtime
        verifiers: list[Verifier] = []
        try:
            for bundle in bundles:
                settings = Settings(
                    precision,
                    fpr=bundle.manifest.fpr / len(bundles),
                    max_queue=self.limits.in_flight,
                    audit=self.audit,
                )
                verifiers.append(Verifier.open(bundle, runtime, **rights, settings=settings))
            deployment = Deployment(tuple(verifiers), callers)
            if names:
                deployment = deployment.register(names)
            embedder = None
            if self.embed:
                marking: dict[str, Any] = {
                    "psnr": self.limits.psnr,
                    "max_pixels": self.limits.pixels,
                }
                embedder = Embedder.open(bundles[0], **rights, **marking)
            routes = tuple(map(open_routes, self.routes))
            return replace(deployment, embedder=embedder, registry=registry, routes=routes)
        except BaseException:
            for verifier in verifiers:
                verifier.close()
            raise


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
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
    help="Say that a proxy in front handles TLS and limits connections. Required to listen where "
    "other machines can connect.",
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
    help=f"Change a limit: {_shown(Limits())}. Repeatable.",
)
@audit_option
@path_option(
    "--ids",
    help="File of identifiers, one per line, for /identify.",
    show_default="the names that --registry remembers",
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
    bundles: tuple[Path, ...], listen: tuple[str, int], behind_proxy: bool, **options: Any
) -> None:
    """Run an HTTP service that checks whether pictures carry an identifier.

    POST a picture file to /verify?id=NAME; /openapi.json describes the rest. With several BUNDLES,
    such as an old and a new one, any of them may accept a picture, and the first one marks. The log
    goes to standard error, as JSON lines.
    """
    with needs("the service", None, "serve"):
        from coverlock_plugins.service.observing import log_as_json
        from coverlock_plugins.service.server import bind, run
        from coverlock_plugins.service.service import Service
    host, port = listen
    given = DeploymentOptions(bundles, **options)
    _require_shelter(host, behind_proxy, given.tokens)
    if not given.embed:
        if given.limits.psnr is not None:
            raise CoverLockError("the limit psnr does nothing without --embed: leave it out")
        if given.registry is not None:
            require_registry(given.registry)
    service = Service(given.open(), given.limits, given.open)
    with bind(host, port) as bound:
        named, runtime = ", ".join(map(str, bundles)), service.deployment.first.runtime.name
        where = f"[{host}]" if ":" in host else host
        click.echo(f"{named} on {runtime}: http://{where}:{bound.getsockname()[1]}", err=True)
        log_as_json()
        run(service, bound)


def _require_shelter(host: str, behind_proxy: bool, tokens: Path | None) -> None:
    """Refuse to be open to others without tokens, or without a proxy in front."""
    if is_loopback(host):
        return
    if tokens is None:
        raise AccessError(
            f"a service on {host} without --tokens would answer anybody: "
            "make a token with 'coverlock token', or use --listen 127.0.0.1:8000"
        )
    if not behind_proxy:
        raise AccessError(
            f"a service on {host} needs a proxy in front that handles TLS and limits connections "
            "(examples/deploy has one for nginx): pass --behind-proxy, or use "
            "--listen 127.0.0.1:8000"
        )


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
def token(
    name: str,
    file: Path,
    scopes: tuple[str, ...],
    rate: float,
    burst: int,
    prefixes: tuple[str, ...],
) -> None:
    """Make a token that lets NAME use a service, and print it.

    The file keeps only its digest, so save the token now. It replaces NAME's earlier token.
    """
    allowed = cast("tuple[Scope, ...]", scopes)
    click.echo(add_token(file, name, allowed, rate, burst, prefixes))
