"""Finding plugins, keeping the good ones, and explaining the others."""

from __future__ import annotations

import difflib
import inspect
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

import pluggy

from coverlock_sdk import hookspecs
from coverlock_sdk.contract import (
    Attack,
    Defense,
    ImageHash,
    NetworkAttack,
    OracleAttack,
    Watermark,
)
from coverlock_sdk.errors import CoverLockError, PluginError, UnknownNameError
from coverlock_sdk.locking.verdict import Verdict

ENTRY_POINT_GROUP = "coverlock"
DISTRIBUTION = "coverlock-sdk"
BUILTIN = "builtin"
"""The plugin of the SDK itself, which COVERLOCK_PLUGINS cannot leave out."""

ROLES = {
    "watermark": "register_watermarks",
    "hash": "register_hashes",
    "defense": "register_defenses",
    "attack": "register_attacks",
    "distortion": "register_distortions",
    "asset": "register_assets",
    "network": "register_networks",
    "importer": "register_importers",
}

MADE: dict[str, tuple[type, ...]] = {
    "watermark": (Watermark,),
    "hash": (ImageHash,),
    "defense": (Defense,),
    "attack": (Attack, NetworkAttack, OracleAttack),
}
"""Roles whose plugins are made when somebody asks for them, and what they are."""

logger = logging.getLogger(__name__)


@dataclass
class Plugin:
    """One plugin as found on this machine: where it came from, what it added, what went wrong."""

    name: str
    distribution: str
    registered: dict[str, list[str]] = field(default_factory=dict)
    failure: str | None = None


class PluginManager:
    """All plugins of one process. Loading never raises: what fails is kept, with its reason."""

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self._pluggy = pluggy.PluginManager("coverlock")
        self._pluggy.add_hookspecs(hookspecs)
        self._offers: dict[str, dict[str, list[tuple[Plugin, Any]]]] = {role: {} for role in ROLES}
        self.plugins: list[Plugin] = []
        entry_points = sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)
        for entry_point in entry_points:
            if only is None or entry_point.name in (*only, BUILTIN):
                self._admit_entry_point(entry_point)
        for name in sorted((only or frozenset()) - {entry.name for entry in entry_points}):
            missing = f"named in COVERLOCK_PLUGINS, but no installed package has a plugin '{name}'"
            self.plugins.append(Plugin(name, "not installed", failure=missing))
        for plugin in self.plugins:
            if plugin.failure:
                logger.warning("plugin '%s' was skipped: %s", plugin.name, plugin.failure)

    def add(self, name: str, plugin: Any) -> None:
        """Admit a plugin object of the running application, as if it had been installed."""
        entry = Plugin(name, "this application")
        self._admit(entry, lambda: plugin)
        if entry.failure:
            raise PluginError(f"plugin '{name}' cannot be used: {entry.failure}")

    def names(self, role: str) -> list[str]:
        """Everything registered for ``role``, in alphabetical order."""
        return sorted(self._offers[role])

    def get(self, role: str, name: str) -> Any:
        """What was registered for ``role`` under ``name``; an error suggests the nearest name."""
        return self._offer(role, name)[1]

    def provider(self, role: str, name: str) -> str:
        """The distribution, with its version, that registered ``name`` for ``role``."""
        return self._offer(role, name)[0].distribution

    def _offer(self, role: str, name: str) -> tuple[Plugin, Any]:
        offers = self._offers[role].get(name)
        if offers is None:
            raise UnknownNameError(self._explain_unknown(role, name))
        if len(offers) > 1:
            owners = " and ".join(f"'{p.name}' ({p.distribution})" for p, _ in offers)
            raise PluginError(
                f"the {role} '{name}' is registered by {owners}: "
                "uninstall one of them or name the other in COVERLOCK_PLUGINS"
            )
        return offers[0]

    def create(self, role: str, name: str, options: dict[str, Any]) -> Any:
        """Call the factory registered for ``role`` under ``name``."""
        factory = self.get(role, name)
        _refuse_unknown_options(f"the {role} '{name}'", factory, options)
        try:
            return factory(**options)
        except CoverLockError:
            raise
        except Exception as error:
            raise PluginError(
                f"the {role} '{name}' could not be created: {type(error).__name__}: {error}"
            ) from error

    def add_commands(self, cli: Any) -> None:
        """Let every plugin add its commands to the command line."""
        for plugin in self.plugins:
            if plugin.failure is None:
                self._call(plugin, "register_commands", cli=cli)

    def announce(self, verdict: Verdict, watermark: str, hash: str | None, source: Any) -> None:
        """Tell every plugin about a verdict; an exception in one is logged and not passed on."""
        try:
            self._pluggy.hook.verdict_reached(
                verdict=verdict, watermark=watermark, hash=hash, source=source
            )
        except Exception:
            logger.exception("a plugin failed in verdict_reached")

    def _admit_entry_point(self, entry_point: metadata.EntryPoint) -> None:
        distribution = entry_point.dist
        plugin = Plugin(entry_point.name, "unknown")
        if distribution is not None:
            plugin.distribution = f"{distribution.name} {distribution.version}"
            plugin.failure = _version_mismatch(distribution.requires or [])
        if plugin.failure:
            self.plugins.append(plugin)
        else:
            self._admit(plugin, entry_point.load)

    def _admit(self, plugin: Plugin, load: Callable[[], Any]) -> None:
        self.plugins.append(plugin)
        try:
            self._pluggy.register(load(), name=plugin.name)
            self._refuse_wrong_hooks(plugin)
        except Exception as error:
            plugin.failure = f"{type(error).__name__}: {error}"
            self._withdraw(plugin)
            return
        for role, hook in ROLES.items():
            register = self._registrar(plugin, role)
            self._call(plugin, hook, register=register)

    def _registrar(self, plugin: Plugin, role: str) -> Callable[..., None]:
        def register(offer: Any, name: str | None = None) -> None:
            kind = type(offer).__name__
            ready_made = TypeError(
                f"an object of {kind} was registered as a {role}: register the class {kind}, "
                "or a function that makes one"
            )
            if role in MADE and isinstance(offer, MADE[role]):
                raise ready_made
            name = name or getattr(offer, "name", None)
            if not isinstance(name, str) or not name:
                raise TypeError(
                    f"{offer!r} was registered as a {role} without a name: add it, as in "
                    "register(what, 'name')"
                )
            if role in MADE and not callable(offer):
                raise ready_made
            self._offers[role].setdefault(name, []).append((plugin, offer))
            plugin.registered.setdefault(role, []).append(name)

        return register

    def _call(self, plugin: Plugin, hook: str, **arguments: Any) -> None:
        """Call ``hook`` of this plugin alone, so that one that raises harms no other."""
        others = [p for n, p in self._pluggy.list_name_plugin() if n != plugin.name and p]
        try:
            self._pluggy.subset_hook_caller(hook, others)(**arguments)
        except Exception as error:
            plugin.failure = f"{hook} raised {type(error).__name__}: {error}"
            self._withdraw(plugin)

    def _withdraw(self, plugin: Plugin) -> None:
        """Take back everything a failing plugin had registered."""
        plugin.registered.clear()
        for offers in self._offers.values():
            for name in list(offers):
                offers[name] = [offer for offer in offers[name] if offer[0] is not plugin]
                if not offers[name]:
                    del offers[name]
        if self._pluggy.has_plugin(plugin.name):
            self._pluggy.unregister(name=plugin.name)

    def _refuse_wrong_hooks(self, plugin: Plugin) -> None:
        module = self._pluggy.get_plugin(plugin.name)
        callers = self._pluggy.get_hookcallers(module) or []
        if not callers:
            raise PluginError(
                "it implements no hook: @hookimpl is missing, or another module has its name"
            )
        for caller in callers:
            if not caller.has_spec():
                known = [name for name in vars(hookspecs) if hasattr(self._pluggy.hook, name)]
                hint = _nearest(caller.name, known)
                raise PluginError(f"it implements '{caller.name}', which is not a hook{hint}")

    def _explain_unknown(self, role: str, name: str) -> str:
        available = self.names(role)
        hint = _nearest(name, available)
        if not hint:
            hint = f"; there are: {', '.join(available)}" if available else "; none is installed"
        failed = next((p for p in self.plugins if p.name == name and p.failure), None)
        if failed:
            hint = f"; the plugin of that name was skipped ({failed.failure})"
        return f"there is no {role} '{name}'{hint} (see 'coverlock plugins')"


@cache
def plugin_manager() -> PluginManager:
    """The process's plugins, loaded on first use; COVERLOCK_PLUGINS restricts them by name."""
    allowed = os.environ.get("COVERLOCK_PLUGINS")
    only = None
    if allowed is not None:
        only = frozenset(name.strip() for name in allowed.split(",") if name.strip())
    return PluginManager(only)


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def _refuse_unknown_options(
    plugin: str, factory: Callable[..., Any], options: dict[str, Any]
) -> None:
    """Refuse options that ``factory`` has no parameter for."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # a built-in function tells nothing about its arguments
        return
    known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unknown = [option for option in options if option not in known]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        there = f"its options are {', '.join(known)}" if known else "it has no options"
        raise PluginError(f"{plugin} has no option '{unknown[0]}': {there}")


def _own_version() -> str:
    return metadata.version(DISTRIBUTION)


def _version_mismatch(requirements: list[str]) -> str | None:
    """Why a distribution's stated requirement on the SDK is not met, or None where it is."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        wanted = requirement.specifier
        if requirement.name == DISTRIBUTION and not wanted.contains(_own_version(), True):
            return f"it was written for {DISTRIBUTION}{wanted}, this is {_own_version()}"
    return None
