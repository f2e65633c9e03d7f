from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_training.photos import cached_rows, rgb, rounded, shrunk, square
from tests.conftest import saved_pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved_pictures(tmp_path_factory.mktemp("photos"), 12, (48, 48), 2)


def test_a_photo_is_seen_as_a_network_will_see_it(folder):
    path = folder / "000.png"
    assert np.array_equal(rgb(path), np.asarray(Image.open(path)))
    np.testing.assert_allclose(square(path, 32), shrunk(rgb(path), 32), atol=1e-6)
    assert np.array_equal(rounded(square(path, 48)), rgb(path).transpose(2, 0, 1))


def test_an_interrupted_cache_goes_on_where_it_stopped(tmp_path):
    paths, computed = [Path(f"{number}.png") for number in range(40)], []

    def row(path: Path) -> np.ndarray:
        computed.append(path.stem)
        if len(computed) == 35:
            raise KeyboardInterrupt
        return np.array([float(path.stem)], np.float32)

    def run() -> np.ndarray:
        return cached_rows(paths, tmp_path, "test", row, a=1)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert run()[:, 0].tolist() == list(range(40))
    assert computed[35:] == [str(number) for number in range(32, 40)]
    run()
    assert len(computed) == 43  # nothing is computed again
