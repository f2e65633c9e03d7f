"""Watermarks, hashes, defences, attacks and distortions by name, checked before they are used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, cast

from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import AnyAttack, Defense, ImageHash, Watermark
from coverlock_sdk.errors import CoverLockError, PluginError
from coverlock_sdk.images.distortions import Distortion
from coverlock_sdk.plugin_manager import MADE, plugin_manager

DEFAULT_HASH = "octave"
"""A hash that ships, so that the default does not depend on the machine."""


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


def load_watermark(watermark: str | Watermark, **options: Any) -> Watermark:
    """A watermark by its plugin name, or a ``Watermark`` of your own."""
    made: Watermark = _loaded("watermark", watermark, options)
    _require_members(made, "name", "bits", "native_size", "calibration", "hard_bits")
    _require_methods(made, "embed", "decode", "decoder_module", "encoder_module")
    return made


def load_hash(image_hash: str | ImageHash = DEFAULT_HASH, **options: Any) -> ImageHash:
    """An image hash by name, an ``ImageHash`` of your own, or the default hash."""
    made: ImageHash = _loaded("hash", image_hash, options)
    _require_members(made, "name", "input_size", "calibration")
    _require_methods(made, "logits", "module", "differentiable")
    return made


def load_defense(defense: str, **options: Any) -> Defense:
    """A defence by name, with its settings as options."""
    return cast("Defense", _loaded("defense", defense, options))


def load_attack(attack: str, **options: Any) -> AnyAttack:
    """A forgery attack by name, with its settings as options."""
    return cast("AnyAttack", _loaded("attack", attack, options))


def load_distortion(distortion: str) -> Distortion:
    """A distortion by name: the paper's six, harder ones, and those of plugins."""
    return cast("Distortion", plugin_manager().get("distortion", distortion))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _loaded(role: str, given: Any, options: dict[str, Any]) -> Any:
    """What a name stands for, or the object that was given, if it can play the ``role``."""
    made = plugin_manager().create(role, given, options) if isinstance(given, str) else given
    if isinstance(made, type):
        raise PluginError(f"{made.__name__} is a class: give an object of it")
    if not isinstance(made, MADE[role]):
        bases = " or ".join(kind.__name__ for kind in MADE[role])
        raise PluginError(
            f"a {type(made).__name__} is given as {role}: derive its class from {bases}"
        )
    return made


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_size(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_count, value))


def _is_calibration(value: Any) -> bool:
    if not isinstance(value, Calibration):
        return False
    return all(math.isfinite(number) and number > 0 for number in (value.scale, value.power))


_SIZE = "it must be a tuple (height, width) of positive ints"
_MEMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (
        lambda name: isinstance(name, str) and name == name.strip() != "",
        "it must be the string that users type",
    ),
    "bits": (_is_count, "it must be the length of a payload, a positive int"),
    "native_size": (
        lambda size: size is None or _is_size(size),
        f"{_SIZE}, or None for any size",
    ),
    "input_size": (_is_size, _SIZE),
    "calibration": (
        _is_calibration,
        "leave it out, or use the Calibration that 'coverlock calibrate' prints, whose scale and "
        "power are positive",
    ),
    "hard_bits": (lambda value: isinstance(value, bool), "it must be True or False"),
}
"""What members must be, and the sentence for those that are not."""


def _require_members(plugin: Any, *names: str) -> None:
    for name in names:
        is_right, wanted = _MEMBERS[name]
        if not hasattr(plugin, name):
            raise PluginError(f"{type(plugin).__name__} has no {name}: {wanted}")
        if not is_right(getattr(plugin, name)):
            value = repr(getattr(plugin, name))
            raise PluginError(f"{type(plugin).__name__} has {name} {value}: {wanted}")


def _require_methods(plugin: Any, *names: str) -> None:
    for name in names:
        method = getattr(plugin, name)
        if not callable(method) or hasattr(method, "forward"):  # a network is callable too
            raise PluginError(
                f"'{plugin.name}' has {name} as a {type(method).__name__}: make it a method"
            )
