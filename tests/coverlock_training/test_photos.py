import numpy as np
import pytest
from PIL import Image

from coverlock_training.photos import rgb, rounded, shrunk, square
from tests.conftest import saved_pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved_pictures(tmp_path_factory.mktemp("photos"), 12, (48, 48), 2)


def test_a_photo_is_seen_as_a_network_will_see_it(folder):
    path = folder / "000.png"
    assert np.array_equal(rgb(path), np.asarray(Image.open(path)))
    np.testing.assert_allclose(square(path, 32), shrunk(rgb(path), 32), atol=1e-6)
    assert np.array_equal(rounded(square(path, 48)), rgb(path).transpose(2, 0, 1))
