"""The one reader of our JSON files: what is in them is as expected, or a ``DocumentError``.

Files come from other machines and other people. Nothing of them is used before its type, its range
and its length were looked at, and nothing in them makes the reader slow, deep or large.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from coverlock_sdk.errors import CoverLockError

MOST_BYTES = 64_000_000
DEEPEST = 32
LONGEST_TEXT = 100_000
LONGEST_NUMBER = 40
"""Digits; whatever we count has fewer."""


class DocumentError(CoverLockError):
    """A file, or an entry of it, is not what it should be."""


def read_file(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """The content of a file that is not larger than ``most`` bytes."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise DocumentError(f"{path} does not exist") from None
    except OSError as error:
        raise DocumentError(f"{path} cannot be read ({error.strerror or error})") from None
    except ValueError:  # a NUL, which no name of a file has
        raise DocumentError(f"{str(path)!r} is not the name of a file") from None
    if len(content) > most:
        raise DocumentError(f"{path} has more than {most:,} bytes")
    return content


class Document:
    """An object of a JSON document; entries are asked for by name and type."""

    def __init__(self, values: dict[str, Any], name: str = "") -> None:
        self.values = values
        self._name = name

    @classmethod
    def parsed(cls, content: bytes) -> Document:
        """Read strict JSON: no NaN, no doubled names, nothing deep, an object at the top."""
        try:
            values = json.loads(
                content,
                object_pairs_hook=_object,
                parse_int=_integer,
                parse_float=_number,
                parse_constant=_constant,
            )
        except RecursionError:
            raise DocumentError("it is nested too deep") from None
        except (UnicodeDecodeError, ValueError) as error:
            raise DocumentError(f"it is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise DocumentError("it is not a JSON object")
        _refuse_depth(values)
        return cls(values)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str, longest: int = LONGEST_TEXT) -> str:
        """A string that can be written down, without NUL."""
        return self._text(name, self._entry(name), longest)

    def integer(self, name: str, low: int = 0, high: int = 2**53) -> int:
        """A whole number between ``low`` and ``high``."""
        value = self._entry(name)
        if type(value) is not int or not low <= value <= high:
            self._refuse(name, f"a whole number from {low} to {high}")
        return int(value)

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number between ``low`` and ``high``."""
        value = self._entry(name)
        if type(value) not in (int, float) or not low <= value <= high:
            self._refuse(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def document(self, name: str) -> Document:
        """An object."""
        value = self._entry(name)
        if not isinstance(value, dict):
            self._refuse(name, "an object")
        return Document(value, self._path(name))

    def documents(self, name: str) -> list[Document]:
        """A list of objects."""
        return [
            Document(value, f"{self._path(name)}[{number}]")
            if isinstance(value, dict)
            else self._refuse(name, "a list of objects")
            for number, value in enumerate(self.entries(name))
        ]

    def entries(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self._entry(name)
        if not isinstance(value, list):
            self._refuse(name, "a list")
        return list(value)

    def mapping(self, name: str) -> dict[str, str]:
        """An object whose values are all strings."""
        entries = self.document(name).values
        return {
            self._text(name, key, LONGEST_TEXT): self._text(name, value, LONGEST_TEXT)
            for key, value in entries.items()
        }

    def _text(self, name: str, value: Any, longest: int) -> str:
        if not isinstance(value, str) or len(value) > longest or not _is_text(value):
            self._refuse(name, f"a text of at most {longest:,} characters")
        return str(value)

    def _entry(self, name: str) -> Any:
        if name not in self.values:
            raise DocumentError(f"it has no '{self._path(name)}'")
        return self.values[name]

    def _path(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise DocumentError(f"'{self._path(name)}' is not {expected}")


def _is_text(value: str) -> bool:
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("an object names an entry twice")
    return values


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _refuse_depth(values: Any) -> None:
    level: list[Any] = [values]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return
    raise DocumentError("it is nested too deep")


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
