import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from coverlock_sdk import Key, Registry, wrap
from coverlock_sdk.errors import LookalikeWarning, RegistryError
from coverlock_sdk.images.distortions import EVALUATION


@pytest.fixture
def locked(additive, key, tmp_path):
    return wrap(additive, key=key, registry=tmp_path / "pictures.db")


def test_serials_are_handed_out_once(tmp_path):
    registry = Registry(tmp_path / "pictures.db")
    with ThreadPoolExecutor(4) as pool:
        serials = list(pool.map(lambda _: registry.issue("order-1"), range(40)))
    assert sorted(serials) == [f"order-1/{number:06}" for number in range(1, 41)]
    assert Registry(tmp_path / "pictures.db").issue("order-1") == "order-1/000041"


def test_a_marked_picture_is_remembered_and_found_again(locked, photos):
    marked = locked.embed(photos[0], "studio")
    verdict = locked.verify(marked, "studio")
    assert verdict
    assert verdict.likeness == 1
    rng = np.random.default_rng(0)
    for name, distort in EVALUATION.items():
        assert locked.verify(distort(marked, rng), "studio").likeness > 0.88, name


def test_a_hybrid_of_two_pictures_is_not_the_one_that_was_marked(locked, photos):
    """The low frequencies of a marked picture and the high ones of another, mark and all."""
    gaussian_filter = pytest.importorskip("scipy.ndimage").gaussian_filter
    marked = locked.embed(photos[0], "studio").astype(np.float32)
    other = photos[1].astype(np.float32)

    def low(picture):
        return gaussian_filter(picture, (4, 4, 0))

    mark = marked - photos[0]
    hybrid = np.clip(low(photos[0]) + other - low(other) + mark, 0, 255).astype(np.uint8)
    verdict = locked.verify(hybrid, "studio")
    assert not verdict
    assert verdict.likeness < 0.88


def test_what_was_never_marked_is_refused_with_the_reason(locked, additive, photos, key):
    marked = wrap(additive, key=key).embed(photos[0], "studio")
    verdict = locked.verify(marked, "studio")
    assert not verdict
    assert "the registry has no such picture" in str(verdict)


def test_lookalikes_are_said(locked, photos):
    locked.embed(photos[0], "one")
    brighter = np.clip(photos[0] * 1.05, 0, 255).astype(np.uint8)
    with pytest.warns(LookalikeWarning, match="much like one that was marked as 'one'"):
        locked.embed(brighter, "two")


def test_codes_of_another_key_are_not_compared(locked, additive, photos, tmp_path):
    locked.embed(photos[0], "studio")
    other = wrap(additive, key=Key(b"o" * 32, id="other"), registry=tmp_path / "pictures.db")
    assert not other.verify(photos[0], "studio")


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX notion")
def test_the_file_is_private(tmp_path):
    Registry(tmp_path / "pictures.db")
    assert (tmp_path / "pictures.db").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_registry_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("no database" * 100)
    with pytest.raises(RegistryError, match="cannot be used"):
        Registry(tmp_path / "notes.txt")
    with pytest.raises(RegistryError, match="cannot be used"):
        Registry(tmp_path / "no" / "folder.db")
