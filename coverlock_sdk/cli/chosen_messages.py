"""What is embedded or looked for: one message for all pictures, or a serial for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.serials import Serial, SerialRegistry


def message_source(
    length: int,
    identifier: str | None,
    bits: str | None,
    serials: Path | None,
    resume: bool = False,
) -> Callable[[Path], Any]:
    """The message of each picture: the same for all, or with a registry a serial each.

    A run that is resumed goes on with the serials that pictures were given before.
    """
    message = chosen_message(length, identifier, bits)
    if serials is None:
        return lambda picture: message
    if identifier is None:
        raise MessageError("--serials numbers the pictures of an identifier: name it with --id")
    registry = SerialRegistry(serials)
    rows = registry.rows(identifier) if resume else []
    known = {row["picture"]: Serial(row["serial"]) for row in rows}
    return lambda picture: known.get(str(picture)) or registry.issue(identifier, str(picture))


def serial_source(
    registry: SerialRegistry, identifier: str | None, serial: str | None, pictures: int
) -> Callable[[Path], Serial]:
    """The serial of each picture: a new one of an identifier, or the one that was given."""
    if serial is None:
        if identifier is None:
            raise MessageError("name the picture with either --id or --serial")
        return lambda picture: registry.issue(identifier, str(picture))
    if identifier is not None:
        raise MessageError("name the picture with either --id or --serial")
    if pictures > 1:
        raise MessageError(f"one --serial cannot stand for {pictures} pictures: use --id")
    given = Serial(serial)
    return lambda picture: given


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
