"""What is embedded or looked for: one message for all pictures, or a serial for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import MessageError, RegistryError
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.registry import Registry


def message_source(
    length: int,
    identifier: str | None,
    bits: str | None,
    registry: Registry | None,
    resume: bool = False,
) -> Callable[[Path], Any]:
    """The message of each picture: the same for all, or with a registry a serial each.

    A run that is resumed goes on with the serials that pictures were given before.
    """
    message = chosen_message(length, identifier, bits)
    if registry is None:
        return lambda picture: message
    if identifier is None:
        raise MessageError("--registry numbers the pictures of an identifier: name it with --id")

    def serial(picture: Path) -> str:
        before = registry.issued(identifier, str(picture)) if resume else None
        return before or registry.issue(identifier, str(picture))

    return serial


def serial_source(
    registry: Registry, identifier: str | None, serial: str | None, pictures: int
) -> Callable[[Path], str]:
    """The serial of each picture: a new one of an identifier, or the one that was given."""
    if (serial is None) == (identifier is None):
        raise MessageError("name the picture with either --id or --serial")
    if serial is None:
        assert identifier is not None
        return lambda picture: registry.issue(identifier, str(picture))
    if pictures > 1:
        raise MessageError(f"one --serial cannot stand for {pictures} pictures: use --id")
    return lambda picture: serial


def remembered_names(registry: Registry, identifier: str | None = None) -> list[str]:
    """The names of remembered pictures: all of them, or ``identifier`` and its serials."""
    names = registry.names()
    if identifier is not None:
        names = [name for name in names if f"{name}/".startswith(f"{identifier}/")]
    if not names:
        whose = f" marked as '{identifier}'" if identifier else ""
        raise RegistryError(f"the registry {registry.path} remembers no pictures{whose}")
    return names


def chosen_message(length: int, identifier: str | None, bits: str | None) -> Any:
    """The message that ``message_options`` describe: a string is an identifier."""
    if (identifier is None) == (bits is None):
        raise MessageError("name the message with either --id or --bits")
    return as_bits(bits, 1, length)[0] if identifier is None else identifier
