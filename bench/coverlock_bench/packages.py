"""Optional packages: where one is missing, one sentence says how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from coverlock_sdk.errors import MissingModelError


def needed(module: str, purpose: str, extra: str = "bench") -> Any:
    """The module, which ``purpose`` cannot do without; it comes with ``extra``."""
    with needing(purpose, extra):
        return import_module(module)


@contextmanager
def needing(purpose: str, extra: str) -> Iterator[None]:
    """Imports that ``purpose`` cannot do without, inside a ``with``."""
    try:
        yield
    except ImportError as error:
        package = (error.name or str(error)).partition(".")[0]
        raise MissingModelError(
            f"{purpose} needs the package '{package}': pip install 'coverlock-sdk[{extra}]'"
        ) from error
