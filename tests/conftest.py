import os
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

from coverlock_sdk import Key, Watermark, hookimpl
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures

# Shared machines stall; a property is about values, not about milliseconds.
settings.register_profile("coverlock", deadline=None)
settings.load_profile("coverlock")


class AdditiveMark(Watermark):
    """One fixed random pattern a bit, added to the picture: quick, robust, and fully forgeable."""

    name = "additive"
    native_size = (128, 128)
    strength = 0.012

    def __init__(self, bits: int = 48) -> None:
        self.bits = bits
        self.patterns = _patterns(bits)

    def embed(self, images, payloads):
        signs = 2 * payloads.astype(np.float32) - 1
        mark = self.strength * (signs @ self.patterns) / np.sqrt(self.bits) * 2
        return np.clip(images + mark.reshape(-1, 1, 128, 128), 0, 1)

    def decode(self, images):
        grey = images.mean(axis=1)
        blurred = sum(
            np.roll(grey, (dy, dx), axis=(1, 2)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)
        )
        flat = (grey - blurred / 9).reshape(len(images), -1)
        return flat @ self.patterns.T / 10


@cache  # hundreds of tests make this watermark
def _patterns(bits: int) -> np.ndarray:
    drawn = np.random.RandomState(7).standard_normal((bits, 128 * 128))
    patterns = np.linalg.qr(drawn.T)[0].T.astype(np.float32) * 128
    patterns.flags.writeable = False
    return patterns


def plugin_of(*watermarks, **named) -> type:
    """A plugin that registers watermarks, under names of their own or those that are given."""

    class Plugin:
        @hookimpl
        def register_watermarks(self, register):
            for watermark in watermarks:
                register(watermark)
            for name, watermark in named.items():
                register(watermark, name)

    return Plugin


AdditivePlugin = plugin_of(AdditiveMark)
"""The test watermark as a plugin, for tests that go by name."""


def saved_pictures(folder: Path, count: int, size: tuple[int, int], seed: int) -> Path:
    """The folder, with natural-looking pictures in it."""
    folder.mkdir(exist_ok=True)
    for number, picture in enumerate(natural_pictures(count, size, seed=seed)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


def wait_until_gone(process: int) -> None:
    """Fail if a process is still there after ten seconds."""
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the process is still there")


@pytest.fixture(scope="session", autouse=True)
def _one_gram_matrix():
    """Compute the Gram matrix of the same weights once, not in every test that marks a picture."""
    compute, known = OctaveCode.gram.func, {}

    def gram(code: OctaveCode) -> np.ndarray:
        weights = tuple(matrix.tobytes() for matrix in code.whitening)
        if weights not in known:
            known[weights] = compute(code)
            known[weights].flags.writeable = False
        return known[weights]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OctaveCode.gram, "func", gram)
        yield


@pytest.fixture(scope="session")
def additive():
    return AdditiveMark()


@pytest.fixture
def additive_plugin():
    """``additive`` can be named for the length of a test."""
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    yield
    plugin_manager.cache_clear()


@pytest.fixture
def photo_folder(tmp_path, photos, monkeypatch):
    """Four pictures in a folder, from beside which commands run."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    folder.mkdir()
    for index, photo in enumerate(photos[:4]):
        Image.fromarray(photo).save(folder / f"{index}.png")
    return folder


@pytest.fixture(scope="session")
def photos():
    """Twelve natural-looking pictures, (12, 160, 192, 3), 8-bit."""
    return natural_pictures(12, (160, 192), seed=1)


@pytest.fixture
def key():
    return Key(bytes(range(32)), id="test")


@pytest.fixture(scope="session")
def shared_data():
    """The project's photo collection, where this machine has it."""
    folder = os.environ.get("COVERLOCK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("COVERLOCK_DATA does not name the photo collection")
    return Path(folder)
