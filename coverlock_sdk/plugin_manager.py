"""Finding plugins, keeping the good ones, and explaining the others."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from types import SimpleNamespace
from typing import Any, cast

import pluggy

from coverlock_sdk import builtin_plugin, hookspecs
from coverlock_sdk.contract import Attack, Defense, ImageHash, OracleAttack, Watermark
from coverlock_sdk.errors import CoverLockError, PluginError, UnknownNameError
from coverlock_sdk.images.distortions import Distortion
from coverlock_sdk.locking.verdict import Verdict

ENTRY_POINT_GROUP = "coverlock"
DISTRIBUTION = "coverlock-sdk"
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
        self._admit(Plugin("builtin", f"{DISTRIBUTION} {_own_version()}"), lambda: builtin_plugin)
        entry_points = sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)
        for entry_point in entry_points:
            if only is None or entry_point.name in only:
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
        offers = self._offers[role].get(name)
        if offers is None:
            raise UnknownNameError(self._explain_unknown(role, name))
        if len(offers) > 1:
            owners = " and ".join(f"'{p.name}' ({p.distribution})" for p, _ in offers)
            raise PluginError(
                f"the {role} '{name}' is registered by {owners}: "
                "uninstall one of them or name the other in COVERLOCK_PLUGINS"
            )
        return offers[0][1]

    def create(self, role: str, name: str, options: dict[str, Any]) -> Any:
        """Call the factory registered for ``role`` under ``name``."""
        factory = self.get(role, name)
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
        """Tell every plugin of a verdict; what one of them raises is logged, never passed on."""
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
            name = name or getattr(offer, "name", None)
            if not isinstance(name, str) or not name:
                raise TypeError(f"{offer!r} was registered as a {role} without a name")
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


def load_watermark(watermark: str | Any, **options: Any) -> Watermark:
    """A watermark by its plugin name, or an object of your own that has the contract's methods."""
    if isinstance(watermark, str):
        watermark = plugin_manager().create("watermark", watermark, options)
    return _adapted_watermark(watermark)


def load_hash(image_hash: str | ImageHash, **options: Any) -> ImageHash:
    """An image hash by name, or the one you have."""
    if isinstance(image_hash, str):
        image_hash = plugin_manager().create("hash", image_hash, options)
    if not isinstance(image_hash, ImageHash):
        raise PluginError(f"{image_hash!r} is not an ImageHash")
    return image_hash


def load_defense(defense: str, **options: Any) -> Defense:
    """A defence by name, with its settings as options."""
    return cast("Defense", plugin_manager().create("defense", defense, options))


def load_attack(attack: str, **options: Any) -> Attack | OracleAttack:
    """A forgery attack by name, with its settings as options."""
    return cast("Attack | OracleAttack", plugin_manager().create("attack", attack, options))


def load_distortion(distortion: str) -> Distortion:
    """A distortion by name: the paper's six, and what plugins added."""
    return cast("Distortion", plugin_manager().get("distortion", distortion))


def _adapted_watermark(candidate: Any) -> Watermark:
    """``candidate`` itself, or a subclass around an object that only looks like a watermark."""
    if isinstance(candidate, type):
        raise PluginError(f"{candidate.__name__} is a class: give an object of it")
    if isinstance(candidate, Watermark):
        return candidate
    wanted = ("name", "bits", "native_size", "embed", "decode")
    missing = [attribute for attribute in wanted if not hasattr(candidate, attribute)]
    if missing:
        raise PluginError(
            f"a {type(candidate).__name__} is not a watermark: it lacks {', '.join(missing)}"
        )
    members = SimpleNamespace(embed=candidate.embed, decode=candidate.decode)

    class Adapted(Watermark):
        """A vendor's object behind the contract."""

        name = candidate.name
        bits = candidate.bits
        native_size = candidate.native_size
        calibration = getattr(candidate, "calibration", Watermark.calibration)

        def embed(self, images: Any, payloads: Any) -> Any:
            return members.embed(images, payloads)

        def decode(self, images: Any) -> Any:
            return members.decode(images)

        def decoder_module(self) -> Any:
            module = getattr(candidate, "decoder_module", None)
            return module() if module else None

        def encoder_module(self) -> Any:
            module = getattr(candidate, "encoder_module", None)
            return module() if module else None

    return Adapted()


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


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
