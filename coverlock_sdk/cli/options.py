"""Options that several commands share, and what they stand for: a lock, a verifier, a message."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from coverlock_sdk.bundles.signing import ANYONE
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError, MessageError, RegistryError
from coverlock_sdk.images.picture import MAX_PIXELS, MOST_PIXELS
from coverlock_sdk.loading import DEFAULT_HASH, load_hash, load_watermark, parse_setting
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, wrap
from coverlock_sdk.locking.embedding import MOST_PSNR
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE, Keyring, keyring_from_environment
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.verifier.runtimes import AUTO
from coverlock_sdk.verifier.verifier import Settings, Verifier

Command = TypeVar("Command", bound=Callable[..., Any])

Trusted = str | tuple[str, ...] | None
"""What ``--trust`` gives: files, or "any", or nothing."""

BUNDLE_ONLY = ("trust", "runtime", "precision", "workers", "ray")
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


def refuse_idle(where: str, *parameters: str) -> None:
    """Refuse those ``parameters`` of the running command that were given but do nothing here."""
    context = click.get_current_context()
    idle = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in parameters
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if idle:
        verb, them = ("does", "it") if len(idle) == 1 else ("do", "them")
        listed = ", ".join(idle[:-1]) + " and " * (len(idle) > 1) + idle[-1]
        raise CoverLockError(f"{listed} {verb} nothing {where}: leave {them} out")


def _chosen_trust(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> Trusted:
    """What commands pass on as ``trust``: absolute paths, for processes in other folders."""
    if ANYONE in given and len(given) > 1:
        raise click.UsageError(f"--trust {ANYONE} trusts everybody: leave out the others")
    if ANYONE in given:
        return ANYONE
    return tuple(str(Path(path).resolve()) for path in given) or None


sources_argument = click.argument("sources", nargs=-1, required=True)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."
)
key_option = path_option(
    "--key-file", help="Key file.", show_default=f"${KEY_FILE_VARIABLE}, if it is set"
)
trust_option = click.option(
    "--trust",
    multiple=True,
    callback=_chosen_trust,
    metavar="FILE",
    help="Public key that must have signed the bundle, or 'any' to accept an "
    "unsigned one. Repeatable.",
)
max_pixels_option = click.option(
    "--max-pixels",
    type=click.IntRange(1, MOST_PIXELS),
    default=MAX_PIXELS,
    help="Refuse larger pictures; memory and time grow with them.",
)
audit_option = path_option(
    "--audit", help="Append every verdict to this file; 'coverlock check-log' checks it."
)
registry_option = path_option(
    "--registry",
    help="Database of marked pictures, made by 'embed'. It numbers them, and verification accepts "
    "only pictures that it remembers.",
)
fpr_option = click.option(
    "--fpr", type=float, help="False-positive rate.", show_default=f"{DEFAULT_FPR:g}"
)
psnr_option = click.option(
    "--psnr",
    type=click.FloatRange(20, MOST_PSNR),
    show_default="the watermark's own",
    help="PSNR of marked pictures, in decibels.",
)
workers_option = click.option("--workers", type=click.IntRange(1), help="Number of processes.")
bundle_options = together(
    click.option("--runtime", default=AUTO, help="Runtime for the graph."),
    click.option("--precision", default="fp32", help="Precision of the graph."),
    trust_option,
)
_watermark = ("-w", "--watermark")
_watermark_help = "Watermark plugin, as NAME or NAME:OPTION=VALUE,OPTION=VALUE."
_hash_option = click.option(
    "--hash", help="Image hash, as NAME or NAME:OPTION=VALUE.", show_default=DEFAULT_HASH
)
lock_options = together(
    click.option(*_watermark, required=True, help=_watermark_help),
    _hash_option,
    key_option,
    fpr_option,
    max_pixels_option,
)
_lock_or_bundle_options = together(
    click.option(*_watermark, help=_watermark_help),
    path_option("--bundle", help="Exported bundle, instead of a plugin; needs no PyTorch."),
    _hash_option,
    key_option,
    click.option(
        "--fpr",
        type=float,
        help="False-positive rate.",
        show_default=f"{DEFAULT_FPR:g}, or the bundle's",
    ),
    registry_option,
)
marker_options = together(_lock_or_bundle_options, trust_option, psnr_option, max_pixels_option)
"""What marks pictures, and how strongly."""

verifier_options = together(_lock_or_bundle_options, bundle_options, max_pixels_option)
"""What verifies pictures; ``open_verifier`` takes their values."""

message_options = together(
    click.option("--id", "identifier", help="Identifier that the pictures carry."),
    click.option("--bits", help="The message itself, as a string of 0 and 1, instead of --id."),
)
"""The options that name a message; ``chosen_message`` takes their values."""


def chosen_message(length: int, identifier: str | None, bits: str | None) -> Any:
    """The message that ``message_options`` describe: a string is an identifier."""
    if (identifier is None) == (bits is None):
        raise MessageError("name the message with either --id or --bits")
    if identifier is not None and not identifier.strip():
        raise MessageError("the identifier is empty: give --id a name, such as order-4711")
    return as_bits(bits, 1, length)[0] if identifier is None else identifier


def open_watermark(setting: str) -> Watermark:
    """The watermark that NAME or NAME:OPTION=VALUE describes."""
    name, options = parse_setting(setting)
    return load_watermark(name, **options)


def open_lock(
    watermark: str,
    hash: str | None = None,
    key_file: Path | None = None,
    fpr: float | None = None,
    max_pixels: int = MAX_PIXELS,
    psnr: float | None = None,
    registry: Path | None = None,
) -> LockedWatermark:
    """The lock that ``lock_options`` describe."""
    hash_name, hash_options = parse_setting(hash or DEFAULT_HASH)
    lock = wrap(
        open_watermark(watermark),
        key=chosen_keyring(key_file),
        hash=load_hash(hash_name, **hash_options),
        fpr=DEFAULT_FPR if fpr is None else fpr,
        psnr=psnr,
        registry=registry,
    )
    lock.max_pixels = max_pixels
    return lock


@contextlib.contextmanager
def open_verifier(
    watermark: str | None,
    bundle: Path | None,
    hash: str | None,
    key_file: Path | None,
    fpr: float | None,
    max_pixels: int,
    registry: Path | None,
    **opening: Any,
) -> Iterator[LockedWatermark | Verifier]:
    """The verifier that ``verifier_options`` describe, of a watermark or of a bundle."""
    require_one(watermark, bundle, idle_without_bundle=BUNDLE_ONLY, idle_with_bundle=("hash",))
    if registry is not None:
        require_registry(registry)
    if watermark is not None:
        yield open_lock(watermark, hash, key_file, fpr, max_pixels, registry=registry)
        return
    assert bundle is not None
    keyring = chosen_keyring(key_file)
    # One picture at a time comes from here, so none waits for others to fill a batch.
    rights = {"key": keyring, "trust": opening.pop("trust"), "registry": registry}
    runtime = opening.pop("runtime")
    settings = Settings(fpr=fpr, max_pixels=max_pixels, max_delay_ms=0, **opening)
    with Verifier.open(bundle, runtime, **rights, settings=settings) as verifier:
        yield verifier


def require_one(
    watermark: str | None,
    bundle: Path | None,
    idle_without_bundle: tuple[str, ...],
    idle_with_bundle: tuple[str, ...],
) -> None:
    """Refuse everything but one watermark or one bundle, and options of the other kind."""
    if (watermark is None) == (bundle is None):
        raise CoverLockError("name either a watermark with --watermark or a bundle with --bundle")
    if bundle is None:
        refuse_idle("without --bundle", *idle_without_bundle)
    else:
        refuse_idle("with --bundle, which has its own", *idle_with_bundle)


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
    return Keyring.load(key_file) if key_file else keyring_from_environment()
