"""Watermarks, hashes, defences, attacks and distortions by name, checked before they are used."""

from __future__ import annotations

import inspect
import json
import math
from typing import Any, cast

from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import AnyAttack, Defense, ImageHash, Watermark
from coverlock_sdk.errors import CoverLockError, PluginError
from coverlock_sdk.images.distortions import Distortion
from coverlock_sdk.plugin_manager import plugin_manager

DEFAULT_HASH = "octave"
"""A hash that ships, so that the default does not depend on the machine."""

REQUIRED = ("name", "bits", "native_size", "embed", "decode")
OPTIONAL = (
    "calibration",
    "hard_bits",
    "card",
    "feature_layer",
    "decoder_module",
    "encoder_module",
)


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


def load_watermark(watermark: str | Any, **options: Any) -> Watermark:
    """A watermark by its plugin name, or an object of your own that has the contract's members."""
    if isinstance(watermark, str):
        watermark = plugin_manager().create("watermark", watermark, options)
    return _checked_watermark(watermark)


def load_hash(image_hash: str | ImageHash = DEFAULT_HASH, **options: Any) -> ImageHash:
    """An image hash by name, an ``ImageHash`` of your own, or the default hash."""
    if isinstance(image_hash, str):
        image_hash = plugin_manager().create("hash", image_hash, options)
    if isinstance(image_hash, type):
        raise PluginError(f"{image_hash.__name__} is a class: give an object of it")
    if not isinstance(image_hash, ImageHash):
        raise PluginError(f"{image_hash!r} is not an ImageHash: derive its class from ImageHash")
    _require_name(image_hash, "hash")
    _require_size(image_hash, "input_size", getattr(image_hash, "input_size", None))
    _require_calibration(image_hash)
    _require_method(image_hash, "logits", "images")
    _require_method(image_hash, "module")
    _require_method(image_hash, "differentiable")
    return image_hash


def load_defense(defense: str, **options: Any) -> Defense:
    """A defence by name, with its settings as options."""
    made = plugin_manager().create("defense", defense, options)
    if not isinstance(made, Defense):
        raise PluginError(f"the defense '{defense}' is a {type(made).__name__}, not a Defense")
    return made


def load_attack(attack: str, **options: Any) -> AnyAttack:
    """A forgery attack by name, with its settings as options."""
    made = plugin_manager().create("attack", attack, options)
    if not isinstance(made, AnyAttack):
        raise PluginError(
            f"the attack '{attack}' is a {type(made).__name__}: derive its class from Attack, "
            "NetworkAttack or OracleAttack"
        )
    return made


def load_distortion(distortion: str) -> Distortion:
    """A distortion by name: the paper's six, harder ones, and those of plugins."""
    return cast("Distortion", plugin_manager().get("distortion", distortion))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _checked_watermark(candidate: Any) -> Watermark:
    """``candidate`` itself, or a subclass around an object that only looks like a watermark."""
    if isinstance(candidate, type):
        raise PluginError(f"{candidate.__name__} is a class: give an object of it")
    if not isinstance(candidate, Watermark):
        candidate = _adapted(candidate)
    watermark: Watermark = candidate
    _require_name(watermark, "watermark")
    _require_bits(watermark)
    if getattr(watermark, "native_size", ()) is not None:
        _require_size(watermark, "native_size", getattr(watermark, "native_size", None))
    _require_calibration(watermark)
    if not isinstance(watermark.hard_bits, bool):
        raise PluginError(
            f"'{watermark.name}' has hard_bits {watermark.hard_bits!r}: it must be True or False"
        )
    _require_method(watermark, "embed", "images", "payloads")
    _require_method(watermark, "decode", "images")
    _require_method(watermark, "decoder_module")
    _require_method(watermark, "encoder_module")
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
    if not isinstance(name, str) or not name or name != name.strip():
        raise PluginError(
            f"the {role} {type(plugin).__name__} has the name {name!r}: give it a name, "
            "the string that users type"
        )


def _require_bits(watermark: Watermark) -> None:
    bits = getattr(watermark, "bits", None)
    if not _is_count(bits):
        raise PluginError(
            f"'{watermark.name}' has bits {bits!r}: it must be the length of a payload, "
            "a positive int"
        )


def _require_size(plugin: Any, member: str, size: Any) -> None:
    if not (isinstance(size, tuple) and len(size) == 2 and all(map(_is_count, size))):
        given = f"has {member} {size!r}" if hasattr(plugin, member) else f"has no {member}"
        raise PluginError(
            f"'{plugin.name}' {given}: it must be a tuple (height, width) of positive ints"
            + (", or None for any size" if member == "native_size" else "")
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _require_calibration(plugin: Watermark | ImageHash) -> None:
    calibration = plugin.calibration
    if not isinstance(calibration, Calibration):
        raise PluginError(
            f"'{plugin.name}' has calibration {calibration!r}: leave it out, or use the "
            "Calibration that 'coverlock calibrate' prints"
        )
    numbers = (calibration.scale, calibration.power)
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise PluginError(
            f"'{plugin.name}' has {calibration!r}: scale and power must be positive, so that "
            "large logits are trusted more than small ones"
        )


def _require_method(plugin: Any, name: str, *arguments: str) -> None:
    method = getattr(plugin, name)
    if not callable(method) or hasattr(method, "forward"):  # a network is callable too
        raise PluginError(
            f"'{plugin.name}' has {name} as a {type(method).__name__}: make it a method, "
            f"{name}({', '.join(arguments)})"
        )
    if inspect.iscoroutinefunction(method):
        raise PluginError(f"'{plugin.name}' has an async {name}: make it a plain method")
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        raise PluginError(
            f"'{plugin.name}' cannot be called as {name}({', '.join(arguments)}): {error}"
        ) from None
    except ValueError:  # a built-in function tells nothing about its arguments
        return
