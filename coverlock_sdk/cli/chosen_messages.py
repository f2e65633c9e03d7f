"""What is embedded or looked for: one message for all pictures, or a serial for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.serials import Serial, SerialRegistry


def message_source(
    length: int, identifier: str | None, bits: str | None, serials: Path | None
) -> Callable[[Path], Any]:
    """The message of each picture: the same for all, or with a registry a serial each."""
    message = chosen_message(length, identifier, bits)
    if serials is None:
        return lambda picture: message
    if identifier is None:
        raise MessageError("--serials numbers the pictures of an identifier: name it with --id")
    registry = SerialRegistry(serials)
    return lambda picture: registry.issue(identifier, str(picture))


def registered_serials(path: Path, identifier: str | None = None) -> list[Serial]:
    """The serials of a registry, of which there must be some."""
    if not path.exists():
        raise MessageError(f"there is no registry of serials {path}: 'coverlock embed' makes one")
    serials = SerialRegistry(path).serials(identifier)
    if not serials:
        whose = f" of '{identifier}'" if identifier else ""
        raise MessageError(f"the registry {path} has no serials{whose}")
    return serials


def chosen_message(length: int, identifier: str | None, bits: str | None) -> Any:
    """The message that ``message_options`` describe: a string is an identifier."""
    if (identifier is None) == (bits is None):
        raise MessageError("name the message with either --id or --bits")
    return as_bits(bits, 1, length)[0] if identifier is None else identifier
