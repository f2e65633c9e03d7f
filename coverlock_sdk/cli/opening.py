"""What the shared options stand for: a lock, a verifier, keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coverlock_sdk.cli.options import refuse_idle
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError, RegistryError
from coverlock_sdk.images.picture import MAX_PIXELS
from coverlock_sdk.loading import DEFAULT_HASH, load_hash, load_watermark
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, wrap
from coverlock_sdk.locking.keys import Keyring, keyring_from_environment
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.named_options import parse_setting
from coverlock_sdk.verifier.verifier import Verifier

BUNDLE_ONLY = ("trust", "runtime", "precision", "threads", "workers", "engine", "isolate")
"""Parameters of commands that say how a bundle is opened, and by whom."""


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
    require_one(watermark, bundle)
    if registry is not None:
        require_registry(registry)
    if watermark is not None:
        yield open_lock(watermark, hash, key_file, fpr, max_pixels, registry=registry)
        return
    assert bundle is not None
    keyring = chosen_keyring(key_file)
    # Nobody else asks this verifier, so that a picture need not wait for others.
    settings = {"fpr": fpr, "max_pixels": max_pixels, "registry": registry, **opening}
    with Verifier.open(bundle, key=keyring, max_delay_ms=0, **settings) as verifier:
        yield verifier


def require_registry(path: Path) -> None:
    """Refuse a registry that is not there: only marking makes one."""
    if not path.exists():
        raise RegistryError(f"there is no registry {path}: 'coverlock embed --registry' makes one")


def require_one(watermark: str | None, bundle: Path | None) -> None:
    """Refuse everything but one watermark or one bundle, and options of the other kind."""
    if (watermark is None) == (bundle is None):
        raise CoverLockError("name either a watermark with --watermark or a bundle with --bundle")
    if bundle is None:
        refuse_idle("without --bundle", *BUNDLE_ONLY)
    else:
        refuse_idle("with --bundle, which has its own hash", "hash")


def chosen_keyring(key_file: Path | None) -> Keyring | None:
    """The keys of ``key_file``, or of the file that the environment names, if any."""
    return Keyring.load(key_file) if key_file else keyring_from_environment()
