from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.testing import natural_pictures
from coverlock_training.photos import cached_rows, rgb, rounded, shrunk, square


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, picture in enumerate(natural_pictures(12, (48, 48), seed=2)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


def test_a_photo_is_seen_as_a_network_will_see_it(folder: Path) -> None:
    path = folder / "000.png"
    assert np.array_equal(rgb(path), np.asarray(Image.open(path)))
    np.testing.assert_allclose(square(path, 32), shrunk(rgb(path), 32), atol=1e-6)
    assert np.array_equal(rounded(square(path, 48)), rgb(path).transpose(2, 0, 1))


def test_rows_are_cached_by_photos_and_settings(folder: Path, tmp_path: Path) -> None:
    paths, made = sorted(folder.iterdir()), []

    def mean(path: Path) -> np.ndarray:
        made.append(path.name)
        return rgb(path).mean(keepdims=True)

    for side in (1, 1, 2):
        rows = cached_rows(paths[:3], tmp_path, "means", mean, side=side)
        assert rows[2] == rgb(paths[2]).mean()
    assert made == 2 * [path.name for path in paths[:3]]
