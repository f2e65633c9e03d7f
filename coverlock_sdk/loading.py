"""Watermarks, hashes, defences, attacks and distortions by name, checked before they are used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from coverlock_sdk.contract import Attack, Defense, ImageHash, OracleAttack, Watermark
from coverlock_sdk.errors import PluginError
from coverlock_sdk.images.distortions import Distortion
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.plugin_manager import plugin_manager

DEFAULT_HASH = "nano"
"""A hash that ships: what a picture was marked with must not depend on the machine."""

REQUIRED = ("name", "bits", "native_size", "embed", "decode")
OPTIONAL = (
    "calibration",
    "hard_bits",
    "card",
    "feature_layer",
    "decoder_module",
    "encoder_module",
)


def load_watermark(watermark: str | Any, **options: Any) -> Watermark:
    """A watermark by its plugin name, or an object of your own that has the contract's members."""
    if isinstance(watermark, str):
        watermark = plugin_manager().create("watermark", watermark, options)
    return _checked_watermark(watermark)


def load_hash(image_hash: str | ImageHash = DEFAULT_HASH, **options: Any) -> ImageHash:
    """An image hash by name, the one you have, or the default one."""
    if isinstance(image_hash, str):
        image_hash = plugin_manager().create("hash", image_hash, options)
    if not isinstance(image_hash, ImageHash):
        raise PluginError(f"{image_hash!r} is not an ImageHash")
    _require_name(image_hash, "hash")
    _require_size(image_hash, "input_size", image_hash.input_size)
    _require_calibration(image_hash)
    _require_signature(image_hash, image_hash.logits, "images")
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


def _checked_watermark(candidate: Any) -> Watermark:
    """``candidate`` itself, or a subclass around an object that only looks like a watermark."""
    if isinstance(candidate, type):
        raise PluginError(f"{candidate.__name__} is a class: give an object of it")
    if not isinstance(candidate, Watermark):
        candidate = _adapted(candidate)
    watermark: Watermark = candidate
    _require_name(watermark, "watermark")
    bits = getattr(watermark, "bits", None)
    if not isinstance(bits, int) or isinstance(bits, bool) or bits < 1:
        raise PluginError(
            f"the watermark '{watermark.name}' has bits {bits!r}: it must be a positive int"
        )
    if getattr(watermark, "native_size", ()) is not None:
        _require_size(watermark, "native_size", getattr(watermark, "native_size", ()))
    _require_calibration(watermark)
    _require_signature(watermark, watermark.embed, "images", "payloads")
    _require_signature(watermark, watermark.decode, "images")
    return watermark


def _adapted(candidate: Any) -> Watermark:
    missing = [member for member in REQUIRED if not hasattr(candidate, member)]
    if missing:
        raise PluginError(
            f"a {type(candidate).__name__} is not a watermark: it lacks {', '.join(missing)}"
        )
    offered = (*REQUIRED, *(member for member in OPTIONAL if hasattr(candidate, member)))
    members = {member: getattr(candidate, member) for member in offered}
    methods = {name: staticmethod(value) for name, value in members.items() if callable(value)}
    adapted = type(type(candidate).__name__, (Watermark,), {**members, **methods})
    return cast("Watermark", adapted())


def _require_name(plugin: Any, role: str) -> None:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(
            f"the {role} {type(plugin).__name__} has the name {name!r}: give it a name, "
            "a string that is not empty"
        )


def _require_size(plugin: Any, member: str, size: Any) -> None:
    pair = isinstance(size, tuple) and len(size) == 2 and all(isinstance(n, int) for n in size)
    if not pair or min(size) < 1:
        raise PluginError(
            f"'{plugin.name}' has {member} {size!r}: it must be a tuple (height, width) of "
            "positive ints" + (", or None for any size" if member == "native_size" else "")
        )


def _require_calibration(plugin: Watermark | ImageHash) -> None:
    if not isinstance(plugin.calibration, Calibration):
        raise PluginError(
            f"'{plugin.name}' has calibration {plugin.calibration!r}: leave it out, or use the "
            "Calibration that 'coverlock calibrate' prints"
        )


def _require_signature(plugin: Any, method: Callable[..., Any], *arguments: str) -> None:
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        named = getattr(method, "__name__", "method")
        raise PluginError(
            f"'{plugin.name}' cannot be called as {named}({', '.join(arguments)}): {error}"
        ) from None
    except ValueError:  # a built-in function tells nothing about its arguments
        return
