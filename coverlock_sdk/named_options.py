"""Plugins with options as users write them: ``gt``, ``gt:sources=100``, ``coverlock:hash=dct``."""

from __future__ import annotations

import json
from typing import Any

from coverlock_sdk.errors import CoverLockError


def parse_setting(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``; a value is JSON, or else text."""
    name, _, rest = text.partition(":")
    options = {}
    for part in filter(None, rest.split(",")):
        option, equals, value = part.partition("=")
        if not equals:
            raise CoverLockError(f"'{part}' in '{text}' is not OPTION=VALUE")
        options[option.strip()] = _value(value.strip())
    return name.strip(), options


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
