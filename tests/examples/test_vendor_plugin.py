"""The example of a vendor's package, from its source; `.ci/run` installs it for real."""

import importlib.util
import re
import sys
import types
from pathlib import Path

import numpy as np
import pluggy
import pytest

from coverlock_sdk import NoDefense, hookspecs, wrap
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.testing import natural_pictures

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "vendor_plugin"
GUIDE = ROOT / "docs" / "writing-a-plugin.md"
HOOKS = ROOT / "docs" / "reference" / "hooks.md"


@pytest.fixture(scope="module")
def spreadmark():
    spec = importlib.util.spec_from_file_location("spreadmark", EXAMPLE / "spreadmark.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_lock_the_forgery_passes(spreadmark):
    """What the example is there to show: a sound watermark is not a safe one."""
    unlocked = NoDefense().protect(spreadmark.Spreadmark())
    pictures = natural_pictures(2)
    marked = unlocked.embed(pictures[0], "order-4711")
    forged = np.clip(pictures[1] + (marked.astype(int) - pictures[0]), 0, 255).astype(np.uint8)
    assert unlocked.verify(forged, "order-4711")


@pytest.mark.parametrize("hook", re.findall(r"^### (\w+)$", HOOKS.read_text(), re.M))
def test_examples_of_hooks_are_accepted(spreadmark, hook, monkeypatch):
    monkeypatch.setitem(sys.modules, "spreadmark", spreadmark)
    section = HOOKS.read_text().partition(f"### {hook}\n")[2]
    code = re.search(r"```python\n(.*?)```", section, re.S)[1]
    plugin = types.ModuleType("plugin_of_the_guide")
    exec(code, vars(plugin))
    manager = pluggy.PluginManager("coverlock")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    assert hook in [caller.name for caller in manager.get_hookcallers(plugin)]


def code_of_guide(section):
    text = GUIDE.read_text().partition(f"## {section}")[2]
    return re.search(r"```python\n(.*?)```", text, re.S)[1]


@pytest.mark.parametrize("section", ["Pictures of any size\n", "Decoders without confidence\n"])
def test_watermarks_of_the_guide_verify(spreadmark, section, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "spreadmark", spreadmark)
    exec(code_of_guide(section), {"__name__": "guide"})
    shown = capsys.readouterr().out.splitlines()
    assert shown
    assert all(line.startswith("accepted") for line in shown)


def test_ten_lines_of_the_guide_carry_a_message():
    names = {"__name__": "guide"}
    exec(code_of_guide("1."), names)
    locked = wrap(names["Spreadmark"]())
    picture = natural_pictures(1)[0]
    assert locked.verify(locked.embed(picture, "order-4711"), "order-4711")


def test_code_of_the_guide_is_that_of_the_example():
    guide, source = GUIDE.read_text(), (EXAMPLE / "spreadmark.py").read_text()
    calibration = re.search(r"calibration = .*", source)[0]
    assert calibration in guide
    method = guide[guide.index("## 5") :].partition("def embed(self, images, payloads):\n")[2]
    for line in method.partition("```")[0].splitlines():
        assert line.strip().removeprefix("def decode(self, images):") in source


@pytest.mark.shared
def test_figures_of_the_readme(spreadmark, shared_data):
    unlocked = NoDefense().protect(spreadmark.Spreadmark())
    photos = [read(path).to_bytes() for path in sorted((shared_data / "cc0").glob("*.jpg"))]
    payloads = np.random.RandomState(0).randint(0, 2, (len(photos), 64))
    marked = unlocked.embed(photos, list(payloads))
    errors = [np.square(m.astype(float) - p).mean() for m, p in zip(marked, photos, strict=True)]
    assert 10 * np.log10(255**2 / np.max(errors)) >= 38
    assert ((unlocked.decode(marked) > 0) == payloads).all()
    rng = np.random.default_rng(0)
    for name in ("jpeg", "noise", "brightness", "contrast", "blur"):
        distorted = [EVALUATION[name](picture, rng) for picture in marked]
        assert ((unlocked.decode(distorted) > 0) == payloads).mean() > 0.995, name
