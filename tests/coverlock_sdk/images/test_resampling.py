import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from coverlock_sdk.images.picture import Picture
from coverlock_sdk.images.resampling import lift_matrix, resample, resample_matrix


def lift(residual, size):
    """Both axes of a residual, as ``Picture.with_residual`` carries them."""
    return (
        lift_matrix(residual.shape[-2], size[0])
        @ residual
        @ lift_matrix(residual.shape[-1], size[1]).T
    )


sizes = st.integers(min_value=8, max_value=96)


@given(sizes, sizes)
def test_rows_are_weights_that_sum_to_one(source, target):
    matrix = resample_matrix(source, target)
    assert matrix.shape == (target, source)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("size", [(64, 64), (50, 91), (300, 200)])
def test_agrees_with_pillow_on_float_pictures(size):
    picture = np.random.default_rng(0).random((120, 177), dtype=np.float32)
    expected = Image.fromarray(picture).resize(size[::-1], Image.Resampling.BILINEAR)
    np.testing.assert_allclose(resample(picture, size), np.asarray(expected), atol=1e-5)


@given(st.integers(20, 200), st.integers(20, 200))
def test_what_is_lifted_onto_another_size_comes_back(height, width):
    residual = np.random.default_rng(height).standard_normal((3, 32, 32)).astype(np.float32)
    lifted = lift(residual, (height, width))
    assert lifted.shape == (3, height, width)
    if min(height, width) > 40:
        back = resample(lifted, (32, 32))
        assert np.corrcoef(back.ravel(), residual.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("size", [(90, 70), (70, 201), (333, 257)])
def test_pictures_are_seen_and_carry_residuals_as_the_whole_matrices_say(size):
    rng = np.random.default_rng(0)
    pixels = rng.integers(40, 200, (*size, 3), dtype=np.uint8)
    picture, unit = Picture(pixels), np.moveaxis(pixels, -1, 0).astype(np.float32) / 255
    np.testing.assert_allclose(picture.view((64, 64)), resample(unit, (64, 64)), atol=2e-6)
    residual = 0.03 * rng.standard_normal((3, 64, 64)).astype(np.float32)
    carried = lift(residual, size)
    marked = np.rint(255 * np.clip(unit + carried, 0, 1))
    found = np.moveaxis(picture.with_residual(residual).pixels, -1, 0)
    assert np.abs(found - marked).max() <= 1
    assert (found != marked).mean() < 1e-3
    foreseen = picture.view((64, 64)) + picture.seen_of(residual)
    np.testing.assert_allclose(
        foreseen, picture.with_residual(residual).view((64, 64)), atol=2 / 255
    )
    assert picture.energy_of(residual) == pytest.approx(np.square(carried).mean(), rel=0.02)
