import numpy as np
import pytest

from coverlock_sdk import load_distortion
from coverlock_sdk.images.distortions import (
    EVALUATION,
    HARDER,
    TRAINING,
    Crop,
    GaussianBlur,
    GaussianNoise,
    Rotation,
    draw_training_distortion,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", [*EVALUATION, *HARDER])
def test_pictures_stay_8_bit_rgb_under_a_seed_and_the_input_is_left_alone(name, photos):
    before, distort = photos[0].copy(), load_distortion(name)
    distorted = distort(photos[0], np.random.default_rng(3))
    assert (distorted.dtype, distorted.shape[2]) == (np.uint8, 3)
    assert distorted.shape == before.shape or name in ("crop", "crop-50", "rotation", "sharing")
    assert distorted.tobytes() != before.tobytes()
    np.testing.assert_array_equal(photos[0], before)
    np.testing.assert_array_equal(distort(photos[0], np.random.default_rng(3)), distorted)


def test_the_papers_six_in_its_order():
    assert list(EVALUATION) == ["noise", "brightness", "blur", "jpeg", "contrast", "crop"]


def test_noise_has_the_stated_strength(rng):
    grey = np.full((200, 200, 3), 128, np.uint8)
    assert GaussianNoise(0.05)(grey, rng).std() == pytest.approx(0.05 * 255, rel=0.02)


def test_blur_is_a_gaussian(rng):
    dot = np.zeros((41, 41, 3), np.uint8)
    dot[20, 20] = 255
    blurred = GaussianBlur(2.0)(dot, rng)[..., 0].astype(float)
    expected = 255 / (2 * np.pi * 4)
    assert blurred[20, 20] == pytest.approx(expected, abs=0.6)
    assert blurred[20, 22] == pytest.approx(expected * np.exp(-0.5), abs=0.6)
    flat = np.full((30, 30, 3), 77, np.uint8)
    np.testing.assert_array_equal(GaussianBlur(1.0)(flat, rng), flat)


def test_crop_keeps_the_stated_area_of_the_middle(rng):
    rows = np.repeat(np.arange(100, dtype=np.uint8)[:, None, None], 3, axis=2)
    picture = np.repeat(rows, 50, axis=1)
    cropped = Crop(0.80)(picture, rng)
    assert cropped.shape[0] * cropped.shape[1] / 5000 == pytest.approx(0.8, abs=0.02)
    assert cropped[0, 0, 0] == 5
    corners = {Crop(0.5, anywhere=True)(picture, rng)[0, 0, 0] for _ in range(20)}
    assert len(corners) > 5


@pytest.mark.parametrize("size", [(150, 200), (200, 150), (120, 480)])
def test_a_rotated_picture_has_no_empty_corners_and_keeps_its_proportions(size, rng):
    white = np.full((*size, 3), 255, np.uint8)
    for degrees in (5, -5, 20):
        turned = Rotation(degrees)(white, rng)
        assert turned.min() == 255
        height, width = turned.shape[:2]
        assert height / width == pytest.approx(size[0] / size[1], rel=0.06)


def test_rotation_turns_anticlockwise_about_the_centre(rng):
    picture = np.zeros((201, 201, 3), np.uint8)
    picture[100, 160] = picture[100, 100] = 255  # the centre, and right of it
    row, column = 100 - 60 * np.sin(np.radians(5)), 100 + 60 * np.cos(np.radians(5))
    turned = Rotation(5)(picture, rng)[..., 0]
    margin = (201 - len(turned)) // 2
    bright = np.argwhere(turned > 60) + margin
    assert np.abs(bright - [row, column]).sum(axis=1).min() < 2
    assert np.abs(bright - [100, 100]).sum(axis=1).min() < 2


def test_training_draws_every_kind():
    kinds = {type(draw_training_distortion(np.random.default_rng(seed))) for seed in range(60)}
    assert len(kinds) == len(TRAINING)
