"""Plugins with options as people write them: ``gt``, ``gt:sources=100``, ``coverlock:hash=dct``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coverlock_sdk.errors import CoverLockError


def parse_setting(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``: the name, and the options by name.

    A value that is JSON (a number, true, null) is taken as that, and any other as text.
    """
    name, _, rest = text.partition(":")
    options = {}
    for part in filter(None, rest.split(",")):
        option, equals, value = part.partition("=")
        if not equals:
            raise CoverLockError(f"'{part}' in '{text}' is not OPTION=VALUE")
        options[option.strip()] = _value(value.strip())
    return name.strip(), options


def setting_text(name: str, options: Mapping[str, Any]) -> str:
    """What ``parse_setting`` reads: the name, and the options if there are any."""
    written = ",".join(
        f"{option}={value if isinstance(value, str) else json.dumps(value)}"
        for option, value in options.items()
    )
    return f"{name}:{written}" if written else name


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
