"""``coverlock serve`` and ``coverlock token``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from coverlock_sdk.addresses import is_loopback
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import (
    audit_option,
    bundle_options,
    chosen_keyring,
    key_option,
    path_option,
    psnr_option,
    refuse_idle,
    registry_option,
    require_registry,
)
from coverlock_sdk.embedder import Embedder
from coverlock_sdk.errors import AccessError, needs
from coverlock_sdk.images.picture import MOST_PIXELS
from coverlock_sdk.loading import parse_setting
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.serving.access import SCOPES, Callers, Limits, Scope, add_token
from coverlock_sdk.serving.deployment import Deployment, Routes
from coverlock_sdk.verifier.verifier import Settings, Verifier


def open_routes(setting: str) -> Routes:
    """The routes that NAME or NAME:OPTION=VALUE describes."""
    name, options = parse_setting(setting)
    return cast("Routes", plugin_manager().create("routes", name, options))


@dataclass(frozen=True)
class DeploymentOptions:
    """Files and settings of a service, opened at its start and at each reload."""

    bundles: tuple[Path, ...]
    key_file: Path | None
    tokens: Path | None
    ids: Path | None
    registry: Path | None
    routes: tuple[str, ...]
    """Routes of plugins, as NAME:OPTION=VALUE."""
    opening: Mapping[str, Any]
    """How verifiers are opened."""
    marking: Mapping[str, Any] | None
    """How the embedder is opened; None for a service that does not mark."""

    def open(self) -> Deployment:
        """Open everything as the files are now."""
        keyring = chosen_keyring(self.key_file)
        callers = Callers.load(self.tokens) if self.tokens else None
        registry = Registry(self.registry) if self.registry else None
        names: Sequence[str] = read_identifiers(self.ids) if self.ids else []
        if registry is not None and not names:
            names = registry.names()
        bundles = [Bundle.given(path, self.opening["trust"]) for path in self.bundles]
        rights: dict[str, Any] = {"key": keyring, "registry": registry}
        runtime, opening = self.opening["runtime"], dict(self.opening)
        del opening["runtime"], opening["trust"]
        verifiers: list[Verifier] = []
        try:
            for bundle in bundles:
                fpr = bundle.manifest.fpr / len(bundles)
                settings = Settings(fpr=fpr, **opening)
                verifiers.append(Verifier.open(bundle, runtime, **rights, settings=settings))
            deployment = Deployment(tuple(verifiers), callers)
            if names:
                deployment = deployment.register(names)
            embedder = None
            if self.marking is not None:
                marking = {"threads": self.opening["threads"], **self.marking}
                embedder = Embedder.open(bundles[0], key=keyring, registry=registry, **marking)
            routes = tuple(map(open_routes, self.routes))
            return replace(deployment, embedder=embedder, registry=registry, routes=routes)
        except BaseException:
            for verifier in verifiers:
                verifier.close()
            raise


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@key_option
@bundle_options
@click.option("--threads", type=click.IntRange(1), help="Number of threads for the runtime.")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8000, help="Port to listen on.")
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="A proxy in front handles TLS and limits connections; required for any --host that other "
    "machines can reach.",
)
@path_option(
    "--tokens",
    help="Token file (see 'coverlock token'). Without one, only this machine may use the service.",
)
@click.option("--max-bytes", default=Limits.bytes, help="Largest picture file, in bytes.")
@click.option(
    "--max-pixels",
    type=click.IntRange(1, MOST_PIXELS),
    default=Limits.pixels,
    help="Refuse larger pictures; memory and time grow with them.",
)
@click.option(
    "--max-in-flight",
    default=Limits.in_flight,
    type=click.IntRange(1),
    help="Pictures handled at once; beyond that, HTTP 503.",
)
@click.option(
    "--timeout",
    default=Limits.seconds,
    help="Seconds allowed to receive a picture, and as many again to answer.",
)
@click.option(
    "--max-rejections",
    default=Limits.rejections,
    type=click.IntRange(1),
    help="Rejections allowed per message in 30 days across all callers, and a quarter of that per "
    "caller per day; beyond that, HTTP 429.",
)
@click.option(
    "--limits",
    "storage",
    default="memory://",
    metavar="URL",
    help="Where rates and rejections are counted; use redis://HOST:PORT for several services.",
)
@click.option(
    "--drain",
    default=5.0,
    help="Seconds after SIGTERM during which /readyz says 'draining'.",
)
@audit_option
@path_option(
    "--ids",
    help="File of identifiers, one per line, for /identify.",
    show_default="the names that --registry remembers",
)
@registry_option
@click.option("--embed", is_flag=True, help="Also mark pictures, at /embed.")
@psnr_option
@click.option(
    "--routes",
    multiple=True,
    metavar="NAME:OPTION=VALUE",
    help="Routes that a plugin adds, such as c2pa:repository=FOLDER,trust=FILE. Repeatable.",
)
def serve(
    bundles: tuple[Path, ...],
    key_file: Path | None,
    host: str,
    port: int,
    behind_proxy: bool,
    tokens: Path | None,
    max_bytes: int,
    max_pixels: int,
    max_in_flight: int,
    timeout: float,
    max_rejections: int,
    storage: str,
    drain: float,
    ids: Path | None,
    registry: Path | None,
    embed: bool,
    psnr: float | None,
    routes: tuple[str, ...],
    **opening: Any,
) -> None:
    """Run an HTTP service that checks whether pictures carry a message.

    POST a picture file to /verify?id=NAME; /openapi.json describes the rest. With several BUNDLES,
    such as an old and a new one, any of them may accept a picture, and the first one marks. The log
    goes to standard error, as JSON lines.
    """
    with needs("the service", None, "serve"):
        from coverlock_sdk.serving.observing import log_as_json
        from coverlock_sdk.serving.server import bind, run
        from coverlock_sdk.serving.service import Service
    _require_shelter(host, behind_proxy, tokens)
    if not embed:
        refuse_idle("without --embed", "psnr")
        if registry is not None:
            require_registry(registry)
    options = DeploymentOptions(
        bundles,
        key_file,
        tokens,
        ids,
        registry,
        routes,
        {**opening, "max_queue": max_in_flight},
        {"psnr": psnr, "max_pixels": max_pixels} if embed else None,
    )
    limits = Limits(max_bytes, max_pixels, max_in_flight, timeout, max_rejections)
    service = Service(options.open(), limits, options.open, storage)
    with bind(host, port) as bound:
        named, runtime = ", ".join(map(str, bundles)), service.deployment.first.runtime.name
        where = f"[{host}]" if ":" in host else host
        click.echo(f"{named} on {runtime}: http://{where}:{bound.getsockname()[1]}", err=True)
        log_as_json()
        run(service, bound, drain)


def _require_shelter(host: str, behind_proxy: bool, tokens: Path | None) -> None:
    """Refuse to be open to others without tokens, or without a proxy in front."""
    if is_loopback(host):
        return
    if tokens is None:
        raise AccessError(
            f"a service on {host} without --tokens would answer anybody: "
            "make a token with 'coverlock token', or use --host 127.0.0.1"
        )
    if not behind_proxy:
        raise AccessError(
            f"a service on {host} needs a proxy in front that handles TLS and limits connections "
            "(examples/deploy has one for nginx): pass --behind-proxy, or use --host 127.0.0.1"
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
    "which help an attacker, and is not limited by --max-rejections.",
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
