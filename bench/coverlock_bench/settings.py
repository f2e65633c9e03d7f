"""Turns what users type (``gt:sources=100``) into watermarks, attacks and defences."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from coverlock_sdk import (
    CoverLockError,
    Defense,
    Key,
    Watermark,
    load_attack,
    load_defense,
    load_watermark,
)
from coverlock_sdk.contract import AnyAttack
from coverlock_sdk.loading import parse_setting
from coverlock_sdk.locking.verdict import Floors
from coverlock_sdk.plugin_manager import plugin_manager

LOCK = "coverlock"
KEYLESS = "coverlock:key=none"
"""A lock without a key, which everybody can compute, as in the paper."""
PAPER = "coverlock:key=none,rounds=1,harden=false,rule=hard,floors=off"
"""The paper's exact method; add ``hash=dinov2-s`` for its hash too."""
NO_FLOORS = Floors(odds=1.0, band_odds=1.0)


@dataclass(frozen=True)
class Setting:
    """The name of a plugin, and the options that differ from its defaults."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``."""
        name, options = parse_setting(text)
        return cls(name, tuple(options.items()))

    def __str__(self) -> str:
        options = ",".join(f"{option}={_text(value)}" for option, value in self.options)
        return f"{self.name}:{options}" if options else self.name

    @property
    def is_keyless(self) -> bool:
        """Whether this is a lock that everybody can compute."""
        return self.name == LOCK and dict(self.options).get("key", LOCK) in ("none", None)

    def attack(self, **common: Any) -> AnyAttack:
        """The attack of this setting, with the ``common`` options that it supports.

        These are ``naturals``, unmarked pictures, and ``hash``, that of the lock.
        """
        given = _accepted("attack", self.name, common)
        return load_attack(self.name, **{**given, **dict(self.options)})

    def defense(self, key: Key | None = None, **common: Any) -> Defense:
        """The defence of this setting, with the ``common`` options that it supports.

        CoverLock gets ``key``, unless the setting names a key file or says ``key=none``. With
        ``floors=off``, the p-value alone decides; a number means ``Floors(forger=NUMBER)``.
        """
        given = _accepted("defense", self.name, common)
        if self.name == LOCK:
            given["key"] = key
        options = {**given, **dict(self.options)}
        if options.get("key") == "none":
            options["key"] = None
        if "floors" in options:
            options["floors"] = _floors(options["floors"])
        return load_defense(self.name, **options)


BARE, KEYED, OPEN = "", "locked_", "keyless_"
"""The prefixes of metrics: without a lock, behind one with a key, behind one without."""


def arms(defenses: Iterable[str]) -> dict[str, str]:
    """The first defence for each prefix of metrics."""
    found: dict[str, str] = {}
    for text in defenses:
        setting = Setting.parse(text)
        if setting.name == LOCK:
            found.setdefault(OPEN if setting.is_keyless else KEYED, text)
        elif setting.name == "none":
            found.setdefault(BARE, text)
    return found


def compared(defenses: Iterable[str]) -> tuple[str, str]:
    """What a report compares first: no lock, and a lock, one with a key if there is one."""
    found = arms(defenses)
    return found.get(BARE, "none"), found.get(KEYED) or found.get(OPEN, LOCK)


def _floors(value: Any) -> Floors:
    if isinstance(value, float):
        return Floors(forger=value)
    if value == "off":
        return NO_FLOORS
    raise CoverLockError(f"floors={value} is neither 'off' nor a share of bits such as 0.8")


def named_watermark(text: str) -> Watermark:
    """The watermark that a user named, with its options."""
    name, options = parse_setting(text)
    return load_watermark(name, **options)


def _accepted(role: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The ``options`` that are parameters of the plugin's factory."""
    parameters = signature(plugin_manager().get(role, name)).parameters
    anything = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    return {name: value for name, value in options.items() if anything or name in parameters}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
