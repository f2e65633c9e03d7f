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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pluggy

from coverlock_sdk import contract, hookspecs
from coverlock_sdk.errors import CoverLockError, PluginError, UnknownNameError

if TYPE_CHECKING:
    from coverlock_sdk.locking.verdict import Verdict

PLUGINS = "coverlock"
"""The entry-point group of plugins, which are imported when somebody asks for what they offer."""
LISTENERS = "coverlock.listeners"
"""The entry-point group of modules with ``verdict_reached``, imported at the first verdict."""
BUILTIN = "builtin"
"""The plugin of the SDK itself, which COVERLOCK_PLUGINS cannot leave out."""
APPLICATION = "this application"

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
    "watermark": (contract.Watermark,),
    "hash": (contract.ImageHash,),
    "defense": (contract.Defense,),
    "attack": (contract.Attack, contract.NetworkAttack, contract.OracleAttack),
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
        self._offers: dict[str, dict[str, list[tuple[Plugin, Any]]]] = {role: {} for role in ROLES}
        every = metadata.entry_points()
        installed = [*every.select(group=PLUGINS), *every.select(group=LISTENERS)]
        allowed = [e for e in installed if only is None or e.name in (*only, BUILTIN)]
        self._waiting = sorted(allowed, key=lambda entry_point: entry_point.name)
        self._listeners = {e.value for e in allowed if e.group == LISTENERS}
        self._loading = threading.RLock()
        self._plugins: list[Plugin] = []
        self._hooks: list[tuple[Plugin, pluggy.HookRelay]] = []
        for name in sorted((only or frozenset()) - {e.name for e in installed}):
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
        entry = Plugin(name, APPLICATION)
        self._admit(entry, lambda: plugin)
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
        for entry_point in (BUILTIN, name, name.partition("-")[0], None):
            self._load(PLUGINS, entry_point)
            offers = [
                offer
                for offer in self._offers[role].get(name, [])
                if entry_point in (None, offer[0].name)
                or (entry_point == BUILTIN and offer[0].distribution == APPLICATION)
            ]
            if len(offers) == 1:
                return offers[0]
            if offers:
                owners = " and ".join(f"'{p.name}' ({p.distribution})" for p, _ in offers)
                raise PluginError(
                    f"the {role} '{name}' is registered by {owners}: "
                    "uninstall one of them or name the other in COVERLOCK_PLUGINS"
                )
        raise UnknownNameError(self._explain_unknown(role, name))

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
        for plugin, hook in list(self._hooks):
            if plugin.group == PLUGINS:
                with self._apart(plugin):
                    hook.register_commands(cli=cli)

    def announce(self, verdict: Verdict, watermark: str, hash: str | None, source: Any) -> None:
        """Tell every listener about a verdict; an exception in one is logged and not passed on."""
        self._load(LISTENERS)
        for plugin, hook in self._hooks:
            if plugin.group == LISTENERS or plugin.distribution == APPLICATION:
                try:
                    hook.verdict_reached(
                        verdict=verdict, watermark=watermark, hash=hash, source=source
                    )
                except Exception:
                    logger.exception("plugin '%s' failed in verdict_reached", plugin.name)

    def _load(self, group: str, name: str | None = None) -> None:
        """Import what is left of a group: the entry points called ``name``, or all of them."""
        with self._loading:
            for entry in list(self._waiting):
                if entry.group == group and name in (None, entry.name):
                    self._waiting.remove(entry)
                    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown"
                    self._admit(Plugin(entry.name, package, group), partial(self._imported, entry))

    def _imported(self, entry_point: metadata.EntryPoint) -> Any:
        """The module of an entry point; one that would wait for verdicts in vain is refused."""
        module = entry_point.load()
        deaf = entry_point.group == PLUGINS and entry_point.value not in self._listeners
        if deaf and hasattr(module, "verdict_reached"):
            raise PluginError(
                "it implements 'verdict_reached', which is called in the entry-point group "
                f"'{LISTENERS}' only: name its module there too"
            )
        return module

    def _admit(self, plugin: Plugin, load: Callable[[], Any]) -> None:
        """Register what a plugin offers; each has hooks of its own, so that none harms others."""
        self._plugins.append(plugin)
        with self._apart(plugin):
            hooks = pluggy.PluginManager("coverlock")
            hooks.add_hookspecs(hookspecs)
            hooks.register(load(), name=plugin.name)
            _require_known_hooks(hooks, plugin.name)
            self._hooks.append((plugin, hooks.hook))
            for role, hook in ROLES.items() if plugin.group == PLUGINS else ():
                getattr(hooks.hook, hook)(register=partial(self._register, plugin, role))

    @contextmanager
    def _apart(self, plugin: Plugin) -> Iterator[None]:
        """Keep why a plugin failed, and take back everything that it had registered."""
        try:
            yield
        except Exception as error:
            kind = "" if isinstance(error, PluginError) else f"{type(error).__name__}: "
            plugin.failure = f"{kind}{error}"
            logger.warning("plugin '%s' was skipped: %s", plugin.name, plugin.failure)
            plugin.registered.clear()
            self._hooks = [each for each in self._hooks if each[0] is not plugin]
            for role, offers in self._offers.items():
                kept = {
                    name: [o for o in each if o[0] is not plugin] for name, each in offers.items()
                }
                self._offers[role] = {name: each for name, each in kept.items() if each}

    def _register(self, plugin: Plugin, role: str, offer: Any, name: str | None = None) -> None:
        """What hooks get as ``register``."""
        if role in MADE and (isinstance(offer, MADE[role]) or not callable(offer)):
            kind = type(offer).__name__
            raise PluginError(
                f"an object of {kind} was registered as a {role}: register the class {kind}, "
                "or a function that makes one"
            )
        name = name or getattr(offer, "name", None)
        if not isinstance(name, str) or not name:
            raise PluginError(
                f"{offer!r} was registered as a {role} without a name: add it, as in "
                "register(what, 'name')"
            )
        self._offers[role].setdefault(name, []).append((plugin, offer))
        plugin.registered.setdefault(role, []).append(name)

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


def _require_known_hooks(hooks: pluggy.PluginManager, plugin: str) -> None:
    callers = hooks.get_hookcallers(hooks.get_plugin(plugin)) or []
    if not callers:
        raise PluginError(
            "it implements no hook: @hookimpl is missing, or another module has its name"
        )
    known = [name for name in vars(hookspecs) if hasattr(hooks.hook, name)]
    for caller in callers:
        if not caller.has_spec():
            hint = _nearest(caller.name, known)
            raise PluginError(f"it implements '{caller.name}', which is not a hook{hint}")


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
