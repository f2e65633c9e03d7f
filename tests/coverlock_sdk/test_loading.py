"""What a vendor gets wrong is said in one sentence when the plugin is loaded."""

import numpy as np
import pytest

from coverlock_sdk import Calibration, hookimpl, load_attack, load_defense
from coverlock_sdk.errors import PluginError
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.plugin_manager import PluginManager
from tests.coverlock_sdk.kit_subjects import Sound


class Network:
    def __call__(self):
        return self

    forward = __call__


WRONG_MEMBERS = [
    ({"name": None}, "Wrong has name None: it must be the string that users type"),
    ({"name": ""}, "has name '': it must be the string"),
    ({"name": "sound "}, "has name 'sound ': it must be the string"),
    ({"bits": 0}, "Wrong has bits 0: it must be the length of a payload, a positive int"),
    ({"bits": np.int64(64)}, r"has bits np.int64\(64\): .* a positive int"),
    ({"native_size": [64, 64]}, r"has native_size \[64, 64\]: it must be a tuple"),
    ({"native_size": (64, 0)}, r"has native_size \(64, 0\): .*, or None for any size"),
    ({"native_size": (64.0, 64)}, r"has native_size \(64.0, 64\)"),
    ({"calibration": None}, "has calibration None: leave it out, or use the Calibration"),
    ({"calibration": Calibration(scale=-1)}, "whose scale and power are positive"),
    ({"calibration": Calibration(power=float("nan"))}, "whose scale and power are positive"),
    ({"hard_bits": "yes"}, "has hard_bits 'yes': it must be True or False"),
    ({"embed": None}, "has embed as a NoneType: make it a method"),
    ({"decoder_module": Network()}, "has decoder_module as a Network: make it a method"),
]


@pytest.mark.parametrize(("members", "sentence"), WRONG_MEMBERS)
def test_wrong_members_of_a_watermark_are_named(members, sentence):
    with pytest.raises(PluginError, match=sentence) as raised:
        load_watermark(type("Wrong", (Sound,), members)())
    assert "\n" not in str(raised.value)


def test_what_is_no_watermark_is_refused():
    with pytest.raises(PluginError, match="a NoneType is given as watermark: derive its class"):
        load_watermark(None)
    with pytest.raises(PluginError, match="Sound is a class: give an object of it"):
        load_watermark(Sound)
    without_size = type("Wrong", (Sound.__base__,), {**vars(Sound)})
    del without_size.native_size
    with pytest.raises(PluginError, match="Wrong has no native_size: it must be a tuple"):
        load_watermark(without_size())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((Sound(),), "an object of Sound was registered as a watermark: register the class Sound"),
        ((lambda: Sound(),), r"without a name: add it, as in register\(what, 'name'\)"),
        ((3, "three"), "an object of int was registered as a watermark"),
        ((Sound, 3), "without a name"),
    ],
)
def test_wrong_registrations_are_named(arguments, sentence):
    class Plugin:
        @hookimpl
        def register_watermarks(self, register):
            register(*arguments)

    with pytest.raises(PluginError, match=sentence):
        PluginManager(frozenset()).add("wrong", Plugin())


@pytest.fixture
def odd_plugin(monkeypatch):
    """A plugin whose factories make the wrong things."""

    class Abstract(Sound.__base__):
        name = "abstract"

    class Plugin:
        @hookimpl
        def register_watermarks(self, register):
            register(Abstract)
            register(lambda: None, "nothing")

        @hookimpl
        def register_defenses(self, register):
            register(Sound)

        @hookimpl
        def register_attacks(self, register):
            register(Sound)

    manager = PluginManager(frozenset())
    manager.add("odd", Plugin())
    monkeypatch.setattr("coverlock_sdk.loading.plugin_manager", lambda: manager)


@pytest.mark.usefixtures("odd_plugin")
def test_what_a_factory_makes_is_checked():
    with pytest.raises(PluginError, match="'abstract' could not be created: TypeError: .*decode"):
        load_watermark("abstract")
    with pytest.raises(PluginError, match="a NoneType is given as watermark"):
        load_watermark("nothing")
    with pytest.raises(
        PluginError, match="a Sound is given as defense: derive its class from Defense"
    ):
        load_defense("sound")
    with pytest.raises(
        PluginError,
        match="a Sound is given as attack: derive its class from Attack or NetworkAttack",
    ):
        load_attack("sound")
