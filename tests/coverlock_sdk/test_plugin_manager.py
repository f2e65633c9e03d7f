import importlib
import logging
import re
import sys
import textwrap
from pathlib import Path

import pytest

from coverlock_sdk import hookspecs, wrap
from coverlock_sdk.errors import PluginError, UnknownNameError
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.plugin_manager import PluginManager, plugin_manager

ROOT = Path(__file__).parents[2]


GOOD = """
from coverlock_sdk import Watermark, hookimpl

class Tiny(Watermark):
    name = "{name}"
    bits = 24
    native_size = (64, 64)
    def embed(self, images, payloads):
        return images
    def decode(self, images):
        raise SystemError("never called")

@hookimpl
def register_watermarks(register):
    register(Tiny)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a plugin package with metadata on the path, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(name: str, source: str, groups=("coverlock",)) -> None:
        module = f"{name.replace('-', '_')}_plugin"
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        monkeypatch.delitem(sys.modules, module, raising=False)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
        entries = [f"[{group}]\n{name} = {module}\n" for group in groups]
        (info / "entry_points.txt").write_text("".join(entries))
        importlib.invalidate_caches()

    return put


GROUPS = ["coverlock", "coverlock.listeners"]


def plugin(manager: PluginManager, name: str):
    return next(p for p in manager.plugins if p.name == name)


def test_an_installed_plugin_is_found(install):
    install("tiny", GOOD.format(name="tiny"))
    manager = PluginManager()
    assert plugin(manager, "tiny").registered == {"watermark": ["tiny"]}
    assert plugin(manager, "tiny").distribution == "tiny-dist 1.0"
    assert manager.create("watermark", "tiny", {}).bits == 24


BROKEN = {
    "import": ("import a_module_that_is_not_there", "ModuleNotFoundError"),
    "syntax": ("def", "SyntaxError"),
    "hook": (
        GOOD.format(name="x") + "\n    raise RuntimeError('no licence')",
        "^RuntimeError: no licence",
    ),
    "misspelt": (
        "from coverlock_sdk import hookimpl\n@hookimpl\ndef register_watermark(register): ...",
        "'register_watermark', which is not a hook; did you mean 'register_watermarks'",
    ),
    "nothing": ("x = 1", "it implements no hook"),
    "arguments": (
        "from coverlock_sdk import hookimpl\n@hookimpl\ndef register_watermarks(registry): ...",
        "PluginValidationError",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_reported_by_name_and_harms_no_other(case, install, caplog):
    source, reason = BROKEN[case]
    install("broken", source)
    install("tiny", GOOD.format(name="tiny"))
    with caplog.at_level(logging.WARNING):
        manager = PluginManager()
        manager.names("watermark")
    assert re.search(reason, plugin(manager, "broken").failure)
    assert "'broken' was skipped" in caplog.text
    assert "tiny" in manager.names("watermark")
    assert "x" not in manager.names("watermark")


def test_one_name_from_two_plugins_is_explained(install):
    install("one", GOOD.format(name="same"))
    install("two", GOOD.format(name="same"))
    with pytest.raises(PluginError, match=r"'one' \(one-dist 1.0\) and 'two' \(two-dist 1.0\)"):
        PluginManager().get("watermark", "same")
    assert PluginManager(frozenset({"two"})).get("watermark", "same").bits == 24


def test_the_environment_restricts_what_is_loaded(install, monkeypatch):
    install("tiny", GOOD.format(name="tiny"))
    install("other", GOOD.format(name="other"))
    monkeypatch.setenv("COVERLOCK_PLUGINS", "tiny, missing")
    plugin_manager.cache_clear()
    try:
        manager = plugin_manager()
        assert manager.names("watermark") == ["tiny"]
        assert "no installed package" in plugin(manager, "missing").failure
        assert "octave" in manager.names("hash")
        assert load_watermark("tiny").name == "tiny"
    finally:
        plugin_manager.cache_clear()


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="no watermark 'rivagann'; did you mean 'rivagan'"):
        wrap("rivagann")
    with pytest.raises(UnknownNameError, match="'zzz' on this machine: install the .* or use"):
        plugin_manager().get("attack", "zzz")
    with pytest.raises(UnknownNameError, match="'quantmark' on this machine: install the package"):
        wrap("quantmark")


def test_an_unknown_option_is_refused_with_those_that_are_known(install):
    install("tiny", GOOD.format(name="tiny"))
    with pytest.raises(PluginError, match="'tiny' has no option 'colour': it has no options"):
        PluginManager().create("watermark", "tiny", {"colour": "blue"})
    with pytest.raises(PluginError, match="'gt' has no option 'source': its options are .*sources"):
        PluginManager().create("attack", "gt", {"source": 1})


def test_verdicts_are_announced_and_a_failing_listener_is_only_logged(
    additive, photos, install, caplog, monkeypatch, tmp_path
):
    install(
        "listener",
        """
        from coverlock_sdk import hookimpl
        HEARD = []
        @hookimpl
        def verdict_reached(verdict, watermark, hash, source):
            HEARD.append((verdict, watermark, hash, source))
            raise RuntimeError("disk full")
        """,
        groups=["coverlock.listeners"],
    )
    from PIL import Image

    Image.fromarray(photos[0]).save(tmp_path / "p.png")
    plugin_manager.cache_clear()
    try:
        locked = wrap(additive)
        verdict = locked.verify(tmp_path / "p.png", "studio")
        locked.verify(photos[:2], "studio")
        locked.identify(photos[0], ["a", "b"])
        heard = sys.modules["listener_plugin"].HEARD
        assert len(heard) == 4
        assert heard[0] == (verdict, "additive", locked.hash.name, str(tmp_path / "p.png"))
        assert heard[1][3] is None
        assert "failed in verdict_reached" in caplog.text
    finally:
        plugin_manager.cache_clear()


def test_a_listener_in_the_wrong_group_is_told_where_it_belongs(install):
    listening = "from coverlock_sdk import hookimpl\n@hookimpl\ndef verdict_reached(verdict): ...\n"
    install("deaf", listening)
    install("both", listening + GOOD.format(name="both"), groups=GROUPS)
    manager = PluginManager()
    assert "'coverlock.listeners' only: name its module there" in plugin(manager, "deaf").failure
    assert manager.create("watermark", "both", {}).bits == 24
    assert [p.group for p in manager.plugins if p.name == "both" and not p.failure] == GROUPS


def test_only_the_entry_point_of_the_name_that_is_asked_for_is_imported(install):
    for name in ("tiny", "other"):
        install(name, GOOD.format(name=name))
    manager = PluginManager()
    assert manager.create("watermark", "tiny", {}).bits == 24
    assert manager.provider("watermark", "tiny") == "tiny-dist 1.0"
    manager.get("hash", "octave")
    manager.get("hash", "dinov2-s")  # of the entry point "dinov2"
    assert "other_plugin" not in sys.modules
    assert {"tiny", "other"} <= set(manager.names("watermark"))
    assert "other_plugin" in sys.modules


def test_a_name_belongs_to_the_sdk_then_to_the_plugin_of_that_name(install):
    """Which plugins were imported before makes no difference."""
    octave = "from coverlock_sdk import hookimpl\n@hookimpl\ndef register_hashes(register):\n"
    install("thief", octave + "    register(lambda: None, 'octave')")
    install("tiny", GOOD.format(name="tiny"))
    install("other", GOOD.format(name="tiny"))
    manager = PluginManager()
    for _ in range(2):
        assert manager.provider("watermark", "tiny") == "tiny-dist 1.0"
        assert manager.provider("hash", "octave").startswith("coverlock-sdk ")
        manager.names("watermark")


def test_every_hook_is_documented():
    docs = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    hooks = [n for n, v in vars(hookspecs).items() if hasattr(v, "coverlock_spec")]
    assert len(hooks) >= 8
    undocumented = [name for name in hooks if name not in docs]
    assert undocumented == []
