"""Finding plugins, importing the ones that are asked for, and explaining the broken ones.

Whoever asks for a name gets it from the SDK itself or the running application, else from the entry
point of that name, or of the name up to its first hyphen (``dinov2`` has ``dinov2-s``), else from
any other plugin. Each step imports no more than it needs, so a verifier in production never imports
the plugins that it does not use.
"""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from coverlock_sdk.locking.verdict import Verdict

PLUGINS = "coverlock"
"""The entry-point group of plugins, which are imported when somebody asks for what they offer."""
LISTENERS = "coverlock.listeners"
"""The entry-point group of modules with ``verdict_reached``, imported at the first verdict."""
LISTENING = "verdict_reached"

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
    "routes": "register_routes",
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
    group: str = PLUGINS
    registered: dict[str, list[str]] = field(default_factory=dict)
    failure: str | None = None


class PluginManager:
    """All plugins of one process. Loading never raises: what fails is kept, with its reason."""

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self._hooks = _hook_caller()
        self._listeners = _hook_caller()
        self._offers: dict[str, dict[str, list[tuple[Plugin, Any]]]] = {role: {} for role in ROLES}
        self._waiting = {group: _entry_points(group, only) for group in (PLUGINS, LISTENERS)}
        self._heard = {entry.value for entry in self._waiting[LISTENERS]}
        self._loading = threading.RLock()
        self._plugins: list[Plugin] = []
        self._own: list[Plugin] = []
        installed = {entry.name for entries in self._waiting.values() for entry in entries}
        for name in sorted((only or frozenset()) - installed):
            missing = f"named in COVERLOCK_PLUGINS, but no installed package has a plugin '{name}'"
            self._plugins.append(Plugin(name, "not installed", failure=missing))

    @property
    def plugins(self) -> list[Plugin]:
        """Every plugin of this machine, all of them imported."""
        self._load(PLUGINS)
        self._load(LISTENERS)
        return self._plugins

    def add(self, name: str, plugin: Any) -> None:
        """Admit a plugin object of the running application, as if it had been installed."""
        entry = Plugin(name, "this application")
        self._own.append(entry)
        self._admit(entry, self._hooks, lambda: plugin)
        if entry.failure is None and hasattr(plugin, LISTENING):
            self._listeners.register(plugin, name=name)
        if entry.failure:
            raise PluginError(f"plugin '{name}' cannot be used: {entry.failure}")

    def names(self, role: str) -> list[str]:
        """Everything registered for ``role``, in alphabetical order."""
        self._load(PLUGINS)
        return sorted(self._offers[role])

    def get(self, role: str, name: str) -> Any:
        """What was registered for ``role`` under ``name``; an error suggests the nearest name."""
        return self._offer(role, name)[1]

    def provider(self, role: str, name: str) -> str:
        """The distribution, with its version, that registered ``name`` for ``role``."""
        return self._offer(role, name)[0].distribution

    def _offer(self, role: str, name: str) -> tuple[Plugin, Any]:
        for rank, entry_point in enumerate((BUILTIN, name, _family(name), None)):
            self._load(PLUGINS, entry_point)
            every = self._offers[role].get(name, [])
            offers = [offer for offer in every if self._rank(offer[0], name) == rank]
            if len(offers) == 1:
                return offers[0]
            if offers:
                owners = " and ".join(f"'{p.name}' ({p.distribution})" for p, _ in offers)
                raise PluginError(
                    f"the {role} '{name}' is registered by {owners}: "
                    "uninstall one of them or name the other in COVERLOCK_PLUGINS"
                )
        raise UnknownNameError(self._explain_unknown(role, name))

    def _rank(self, plugin: Plugin, name: str) -> int:
        """How soon a plugin is asked for ``name``: see the top of this file."""
        if plugin.name == BUILTIN or any(plugin is own for own in self._own):
            return 0
        return {_family(name): 2, name: 1}.get(plugin.name, 3)

    def create(self, role: str, name: str, options: dict[str, Any]) -> Any:
        """Call the factory registered for ``role`` under ``name``."""
        factory = self.get(role, name)
        _refuse_wrong_options(f"the {role} '{name}'", factory, options)
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
        self._load(PLUGINS)
        for plugin in self._plugins:
            if plugin.failure is None and plugin.group == PLUGINS:
                self._call(plugin, "register_commands", cli=cli)

    def announce(self, verdict: Verdict, watermark: str, hash: str | None, source: Any) -> None:
        """Tell every listener about a verdict; an exception in one is logged and not passed on."""
        self._load(LISTENERS)
        try:
            self._listeners.hook.verdict_reached(
                verdict=verdict, watermark=watermark, hash=hash, source=source
            )
        except Exception:
            logger.exception("a plugin failed in verdict_reached")

    def _load(self, group: str, name: str | None = None) -> None:
        """Import what is left of a group: the entry points called ``name``, or all of them."""
        with self._loading:
            for entry_point in list(self._waiting[group]):
                if name in (None, entry_point.name):
                    self._waiting[group].remove(entry_point)
                    self._admit_entry_point(entry_point)

    def _admit_entry_point(self, entry_point: metadata.EntryPoint) -> None:
        distribution = entry_point.dist
        plugin = Plugin(entry_point.name, "unknown", entry_point.group)
        if distribution is not None:
            plugin.distribution = f"{distribution.name} {distribution.version}"
            if distribution.name != DISTRIBUTION:
                plugin.failure = _version_mismatch(distribution.requires or [])
        if plugin.failure:
            self._plugins.append(plugin)
        elif plugin.group == LISTENERS:
            self._admit(plugin, self._listeners, entry_point.load)
        else:
            self._admit(plugin, self._hooks, entry_point.load)
            if plugin.failure is None and entry_point.value not in self._heard:
                self._refuse_unheard(plugin)
        if plugin.failure:
            logger.warning("plugin '%s' was skipped: %s", plugin.name, plugin.failure)

    def _admit(self, plugin: Plugin, hooks: pluggy.PluginManager, load: Callable[[], Any]) -> None:
        self._plugins.append(plugin)
        try:
            hooks.register(load(), name=plugin.name)
            self._refuse_wrong_hooks(plugin, hooks)
        except Exception as error:
            plugin.failure = f"{type(error).__name__}: {error}"
            self._withdraw(plugin, hooks)
            return
        if hooks is self._hooks:
            for role, hook in ROLES.items():
                self._call(plugin, hook, register=self._registrar(plugin, role))

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
        others = [p for n, p in self._hooks.list_name_plugin() if n != plugin.name and p]
        try:
            self._hooks.subset_hook_caller(hook, others)(**arguments)
        except Exception as error:
            plugin.failure = f"{hook} raised {type(error).__name__}: {error}"
            self._withdraw(plugin, self._hooks)

    def _withdraw(self, plugin: Plugin, hooks: pluggy.PluginManager) -> None:
        """Take back everything a failing plugin had registered."""
        plugin.registered.clear()
        for offers in self._offers.values():
            for name in list(offers):
                offers[name] = [offer for offer in offers[name] if offer[0] is not plugin]
                if not offers[name]:
                    del offers[name]
        if hooks.has_plugin(plugin.name):
            hooks.unregister(name=plugin.name)

    def _refuse_wrong_hooks(self, plugin: Plugin, hooks: pluggy.PluginManager) -> None:
        callers = hooks.get_hookcallers(hooks.get_plugin(plugin.name)) or []
        if not callers:
            raise PluginError(
                "it implements no hook: @hookimpl is missing, or another module has its name"
            )
        for caller in callers:
            if not caller.has_spec():
                known = [name for name in vars(hookspecs) if hasattr(hooks.hook, name)]
                hint = _nearest(caller.name, known)
                raise PluginError(f"it implements '{caller.name}', which is not a hook{hint}")

    def _refuse_unheard(self, plugin: Plugin) -> None:
        """A plugin that waits for verdicts in the wrong group would wait for ever."""
        if hasattr(self._hooks.get_plugin(plugin.name), LISTENING):
            plugin.failure = (
                f"it implements '{LISTENING}', which is called in the entry-point group "
                f"'{LISTENERS}' only: name its module there too"
            )
            self._withdraw(plugin, self._hooks)

    def _explain_unknown(self, role: str, name: str) -> str:
        available = self.names(role)
        hint = _nearest(name, available)
        if not hint:
            others = f", or use {', '.join(available)}" if available else ""
            hint = f" on this machine: install the package that has it{others}"
        failed = next((p for p in self._plugins if p.name == name and p.failure), None)
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


def _hook_caller() -> pluggy.PluginManager:
    hooks = pluggy.PluginManager("coverlock")
    hooks.add_hookspecs(hookspecs)
    return hooks


def _entry_points(group: str, only: frozenset[str] | None) -> list[metadata.EntryPoint]:
    """The entry points of a group by name, or only those that are allowed."""
    found = sorted(metadata.entry_points(group=group), key=lambda entry: entry.name)
    return [entry for entry in found if only is None or entry.name in (*only, BUILTIN)]


def _family(name: str) -> str:
    return name.partition("-")[0]


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; did you mean '{close[0]}'?" if close else ""


def _refuse_wrong_options(
    plugin: str, factory: Callable[..., Any], options: dict[str, Any]
) -> None:
    """Refuse options that ``factory`` has no parameter for, and text where it wants a number."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # a built-in function tells nothing about its arguments
        return
    known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unknown = [option for option in options if option not in known]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        there = f"its options are {', '.join(known)}" if known else "it has no options"
        raise PluginError(f"{plugin} has no option '{unknown[0]}': {there}")
    for parameter in parameters:
        value, usual = options.get(parameter.name), parameter.default
        if isinstance(value, str) and type(usual) in (int, float):
            raise PluginError(
                f"the option '{parameter.name}' of {plugin} is a number such as {usual}, "
                f"not '{value}'"
            )


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
