"""Options that several commands share, and what they stand for: a lock, a verifier, a message."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from coverlock_sdk.bundles.signing import ANYONE
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError, RegistryError
from coverlock_sdk.loading import DEFAULT_HASH, load_hash, load_watermark, parse_setting
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, wrap
from coverlock_sdk.locking.embedding import MOST_PSNR
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE, Keyring, as_keyring, require_text
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.verifier.runtimes import AUTO
from coverlock_sdk.verifier.verifier import Settings, Verifier

Command = TypeVar("Command", bound=Callable[..., Any])

Trusted = str | tuple[str, ...] | None
"""What ``--trust`` gives: files, or "any", or nothing."""

BUNDLE_ONLY = ("trust", "runtime", "workers")
"""Parameters of ``verify`` and ``identify`` that say how a bundle is opened, and by whom."""


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator; ``--help`` shows them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def path_option(*names: str, help: str, **settings: Any) -> Callable[[Any], Any]:
    """An option that names a file or a folder."""
    return click.option(*names, type=click.Path(path_type=Path), help=help, **settings)


def _chosen_trust(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> Trusted:
    """What commands pass on as ``trust``: absolute paths, for processes in other folders."""
    if ANYONE in given and len(given) > 1:
        raise click.UsageError(f"--trust {ANYONE} trusts everybody: leave out the others")
    files = tuple(str(Path(path).resolve()) for path in given)
    return ANYONE if ANYONE in given else files or None


def _chosen_runtime(context: click.Context, option: click.Parameter, given: str) -> tuple[str, str]:
    """The runtime and the precision that NAME or NAME:PRECISION stands for."""
    name, _, precision = given.partition(":")
    return name, precision or Settings.precision


sources_argument = click.argument("sources", nargs=-1, required=True)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."
)
identifier_option = click.option(
    "--id",
    "identifier",
    required=True,
    callback=lambda context, option, given: require_text(given),
    help="Identifier that the pictures carry.",
)
watermark_option = click.option(
    "-w",
    "--watermark",
    help="Watermark plugin, as NAME or NAME:OPTION=VALUE,OPTION=VALUE. "
    "Add hash=NAME to lock with a different image hash.",
)
bundle_option = path_option("--bundle", help="Exported bundle to use instead of a plugin.")
key_option = path_option(
    "--key-file", help="Key file.", show_default=f"${KEY_FILE_VARIABLE}, if it is set"
)
trust_option = click.option(
    "--trust",
    multiple=True,
    callback=_chosen_trust,
    metavar="FILE",
    help="Public key to check the bundle's signature with, or 'any' to accept an "
    "unsigned bundle. Repeatable.",
)
runtime_option = click.option(
    "--runtime",
    default=AUTO,
    callback=_chosen_runtime,
    metavar="NAME[:PRECISION]",
    help="Runtime for the bundle's graph, optionally with a precision, such as cuda:fp16.",
)
audit_option = path_option(
    "--audit", help="Append every verdict to this file; 'coverlock check-log' checks it."
)
registry_option = path_option(
    "--registry",
    help="Registry file. 'embed' creates it and gives each picture a serial; verification then "
    "accepts only pictures in it.",
)
fpr_option = click.option(
    "--fpr",
    type=float,
    help="False-positive rate.",
    show_default=f"{DEFAULT_FPR:g}, or the bundle's",
)
psnr_option = click.option(
    "--psnr",
    type=float,
    show_default="the watermark's own",
    help=f"PSNR of marked pictures, 20 to {MOST_PSNR} decibels.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1),
    show_default="1, this process",
    help="Number of processes.",
)

verifier_options = together(
    watermark_option,
    bundle_option,
    key_option,
    fpr_option,
    registry_option,
    runtime_option,
    trust_option,
)
"""What verifies pictures; ``open_verifier`` takes their values."""


def open_watermark(setting: str) -> Watermark:
    """The watermark that NAME or NAME:OPTION=VALUE describes."""
    name, options = parse_setting(setting)
    return load_watermark(name, **options)


def open_lock(
    watermark: str,
    hash: str | None = None,
    key_file: Path | None = None,
    fpr: float | None = None,
    psnr: float | None = None,
    registry: Path | None = None,
) -> LockedWatermark:
    """The lock that options of the command line describe.

    Without ``hash``, that is an option of the watermark: NAME:hash=dinov2-s.
    """
    name, options = parse_setting(watermark)
    if hash is None:
        hash = str(options.pop("hash", DEFAULT_HASH))
    hash_name, hash_options = parse_setting(hash)
    return wrap(
        load_watermark(name, **options),
        key=chosen_keyring(key_file),
        hash=load_hash(hash_name, **hash_options),
        fpr=DEFAULT_FPR if fpr is None else fpr,
        psnr=psnr,
        registry=registry,
    )


def open_verifier(
    watermark: str | None,
    bundle: Path | None,
    key_file: Path | None,
    fpr: float | None,
    registry: Path | None,
    runtime: tuple[str, str],
    trust: Trusted,
) -> AbstractContextManager[LockedWatermark | Verifier]:
    """The verifier that ``verifier_options`` describe, of a watermark or of a bundle."""
    require_one(watermark, bundle, *BUNDLE_ONLY)
    if registry is not None:
        require_registry(registry)
    if bundle is None:
        assert watermark is not None
        return nullcontext(open_lock(watermark, key_file=key_file, fpr=fpr, registry=registry))
    name, precision = runtime
    # One picture at a time comes from here, so none waits for others to fill a batch.
    settings = Settings(precision, fpr, max_delay_ms=0)
    rights: dict[str, Any] = {"key": chosen_keyring(key_file), "registry": registry}
    return Verifier.open(bundle, name, trust=trust, **rights, settings=settings)


def require_one(watermark: str | None, bundle: Path | None, *of_bundles: str) -> None:
    """Refuse everything but one watermark or one bundle, and options of bundles without one."""
    if (watermark is None) == (bundle is None):
        raise CoverLockError("name either a watermark with --watermark or a bundle with --bundle")
    context = click.get_current_context()
    idle = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in of_bundles
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if bundle is None and idle:
        raise CoverLockError(f"without --bundle, leave out {', '.join(idle)}")


def require_registry(path: Path) -> None:
    """Refuse a registry that does not exist: only marking makes one."""
    if not path.exists():
        raise RegistryError(f"there is no registry {path}: 'coverlock embed --registry' makes one")


def remembered_names(registry: Registry, identifier: str | None = None) -> list[str]:
    """The names of remembered pictures: all of them, or ``identifier`` and its serials."""
    names = registry.names()
    if identifier is not None:
        names = [name for name in names if f"{name}/".startswith(f"{identifier}/")]
    if not names:
        whose = f" marked as '{identifier}'" if identifier else ""
        raise RegistryError(f"the registry {registry.path} remembers no pictures{whose}")
    return names


def chosen_keyring(key_file: Path | None) -> Keyring | None:
    """The keys of ``key_file``, or of the file that the environment names, if any."""
    return as_keyring(key_file or os.environ.get(KEY_FILE_VARIABLE) or None)
