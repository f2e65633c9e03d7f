"""Plugins with options as users write them: ``gt``, ``gt:sources=100``, ``coverlock:hash=dct``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from inspect import signature
from typing import Any

from coverlock_sdk import Attack, Defense, OracleAttack, load_attack, load_defense
from coverlock_sdk.contract import Images
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.manager import plugin_manager


@dataclass(frozen=True)
class Setting:
    """The name of a plugin, and the options that differ from its defaults."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``."""
        name, _, rest = text.partition(":")
        options = []
        for part in filter(None, rest.split(",")):
            option, equals, value = part.partition("=")
            if not equals:
                raise CoverLockError(f"'{part}' in '{text}' is not OPTION=VALUE")
            options.append((option.strip(), _value(value.strip())))
        return cls(name.strip(), tuple(options))

    def __str__(self) -> str:
        options = ",".join(f"{option}={value}" for option, value in self.options)
        return f"{self.name}:{options}" if options else self.name

    def attack(self, naturals: Images) -> Attack | OracleAttack:
        """The attack of this setting; one that asks for ``naturals`` gets these unmarked pictures.

        An attack asks by having a parameter of that name.
        """
        factory = plugin_manager().get("attack", self.name)
        asked = {"naturals": naturals} if "naturals" in signature(factory).parameters else {}
        return load_attack(self.name, **asked, **dict(self.options))

    def defense(self, **common: Any) -> Defense:
        """The defence of this setting, with ``common`` options that all defences of a run share."""
        return load_defense(self.name, **{**common, **dict(self.options)})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
