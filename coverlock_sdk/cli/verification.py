"""The job that the options of ``coverlock verify`` describe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.chosen_messages import chosen_message, remembered_names
from coverlock_sdk.cli.opening import require_registry
from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.scaling.job import VerificationJob

OF_JOBS = ("fpr", "runtime", "precision", "threads", "max_pixels", "isolate")
"""Options of the command that a job takes as they are."""


def make_job(
    identifier: str | None,
    bits: str | None,
    needs_message: bool = True,
    **settings: Any,
) -> VerificationJob:
    """The job that options describe; other processes work in other folders: paths are absolute.

    Without a message, each row of the Parquet input has an identifier of its own.
    """
    if settings["registry"] is not None:
        _require_name(settings["registry"], identifier)
    bundle, message = Bundle.given(settings["bundle"], settings["trust"]), None
    if needs_message or identifier is not None or bits is not None:
        message = chosen_message(bundle.manifest.message_bits, identifier, bits)
    return VerificationJob(
        bundle=str(bundle.path.resolve()),
        message=tuple(map(int, message)) if identifier is None and message is not None else message,
        key_file=_resolved(settings["key_file"] or os.environ.get(KEY_FILE_VARIABLE)),
        trust=settings["trust"],
        registry=_resolved(settings["registry"]),
        **{name: settings[name] for name in OF_JOBS},
    )


def _require_name(registry: Path, identifier: str | None) -> None:
    """Refuse an identifier that stands for many serials, of which a job looks for one."""
    require_registry(registry)
    names = [] if identifier is None else remembered_names(Registry(registry), identifier)
    if names and names != [identifier]:
        raise MessageError(
            f"'{identifier}' stands for {len(names)} serials, and several processes look for one: "
            "name a serial with --id, or leave out --workers, --isolate and --engine"
        )


def _resolved(path: Path | str | None) -> str | None:
    return str(Path(path).resolve()) if path else None
