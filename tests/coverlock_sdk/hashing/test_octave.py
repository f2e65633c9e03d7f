"""The default hash: its numbers, and the promises that locking relies on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from coverlock_sdk import load_hash
from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.frames import WHOLE, Frame, straightened
from coverlock_sdk.hashing import shipped
from coverlock_sdk.hashing.octave import OCTAVES, OctaveCode, masks
from coverlock_sdk.hashing.shipped import shipped_card, shipped_file
from coverlock_sdk.hashing.views import SIDE, TAPER, View, rows_of
from coverlock_sdk.images.distortions import Rotation
from coverlock_sdk.images.resampling import resample

CODE = OctaveCode()
RISE = np.sin(np.pi / 2 * np.clip((0.5 - np.abs(np.arange(0.5, SIDE) / SIDE - 0.5)) / TAPER, 0, 1))
TAPERED = np.outer(RISE**2, RISE**2) / np.sum(RISE**2) ** 2
"""The weight of each pixel in the mean that a code does not see."""
SEEDS = st.integers(0, 2**32 - 1)


def noise(seed: int, count: int = 1) -> np.ndarray:
    return np.random.RandomState(seed).rand(count, 3, SIDE, SIDE).astype(np.float32)


def smooth(seed: int, size: int = 512) -> np.ndarray:
    """A random picture (3, size, size) that changes from place to place and has no fine detail."""
    coarse = np.random.RandomState(seed).rand(3, 64, 64).astype(np.float32)
    layers = [
        np.asarray(Image.fromarray(layer).resize((size, size), Image.Resampling.BICUBIC))
        for layer in coarse
    ]
    return np.clip(np.stack(layers), 0, 1)


def thumbnail(picture: np.ndarray) -> np.ndarray:
    return resample(picture, (SIDE, SIDE))


def cosines(one: np.ndarray, other: np.ndarray) -> list[float]:
    """How alike two codes are, band by band."""
    parts = np.cumsum(CODE.bands)[:-1]
    return [
        float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
        for a, b in zip(np.split(one, parts), np.split(other, parts), strict=True)
    ]


def test_the_default_ships_in_a_small_file_that_fits_its_card():
    assert isinstance(load_hash(), OctaveCode)
    assert CODE.bands == (192, 320, 512)
    assert shipped_file("octave.safetensors").stat().st_size < 3e6
    card = shipped_card("octave")
    assert tuple(card["recipe"]["dimensions"]) == CODE.bands
    assert tuple(map(tuple, card["bands"])) == OCTAVES
    for band, matrix in enumerate(CODE.whitening):
        assert matrix.shape == (sum(mask.sum() for mask in masks(band)), CODE.bands[band])


def test_damaged_weights_are_refused(monkeypatch, tmp_path):
    (tmp_path / "octave.safetensors").write_bytes(b"not a weight file")
    monkeypatch.setattr(shipped, "shipped_file", lambda name: tmp_path / name)
    with pytest.raises(CorruptModelError, match="reinstall"):
        shipped.shipped_weights.__wrapped__("octave")


def ramps() -> np.ndarray:
    """Pictures of plain arithmetic: a slope, waves, and a disc of one colour."""
    down, across = np.mgrid[:SIDE, :SIDE].astype(np.float64) / SIDE
    slope = np.stack([down, across, (down + across) / 2])
    waves = 0.5 + 0.25 * np.stack(
        [np.sin(20 * down + 9 * across), np.cos(40 * across), np.sin(90 * down * across)]
    )
    disc = np.where(np.hypot(down - 0.45, across - 0.6) < 0.25, 0.9, 0.2)
    return np.stack([slope, waves, np.stack([disc, disc / 2, 1 - disc])]).astype(np.float32)


PLACES = [0, 1, 100, 191, 192, 350, 511, 512, 800, 1023]
GOLDEN = [
    [-0.82955, -0.17223, 0.52931, -0.50289, -0.00167, 0.00311, -0.00098, 0.0003, 0.00035, 0.00111],
    [-0.02213, -1.96133, -0.7331, 0.01891, 0.21052, 0.46545, -0.32125, 0.04166, -0.15176, 0.12021],
    [0.36879, 1.64891, 1.11164, -2.32515, 1.01918, -0.67473, 0.23855, -0.92855, -0.18104, 0.34399],
]


@pytest.mark.parametrize("row", range(3))
def test_golden_logits(row):
    """Bundles and marked pictures outlive a release: these numbers never change."""
    [logits] = CODE.logits(ramps()[row : row + 1])
    np.testing.assert_allclose(logits[PLACES], GOLDEN[row], atol=1e-4)


def test_the_module_gives_the_picture_whose_code_is_taken():
    torch = pytest.importorskip("torch")
    images = noise(0, 2)
    described = CODE.module()(torch.from_numpy(images)).numpy()
    found = np.concatenate([CODE.code(one) for one in described])
    np.testing.assert_array_equal(found, CODE.logits(images))


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_it_is_linear_and_sees_no_brightness(seed):
    one, other = noise(seed, 2)
    mixed = (0.25 * one + 0.5 * other + 0.1).astype(np.float32)
    a, b, c = CODE.logits(np.stack([one, other, mixed]))
    np.testing.assert_allclose(c, 0.25 * a + 0.5 * b, atol=1e-3 * np.abs(a).max())


@given(SEEDS, st.floats(0.9, 1), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_a_crop_has_the_code_of_the_whole_in_its_true_frame(seed, side, down, across):
    picture = smooth(seed)
    size = picture.shape[1]
    kept = round(size * side)
    top, left = round(down * (size - kept)), round(across * (size - kept))
    crop = picture[:, top : top + kept, left : left + kept]
    frame = Frame(kept / size, (left + kept / 2) / size, (top + kept / 2) / size)
    [whole] = CODE.logits(thumbnail(picture)[None])
    [seen] = CODE.code(thumbnail(crop), frame)
    assert min(cosines(whole, seen)) > 0.9


@given(SEEDS, st.floats(-6, 6).filter(lambda turn: abs(turn) > 0.5))
@settings(max_examples=15, deadline=None)
def test_a_turned_picture_has_the_code_of_the_whole_in_its_true_frame(seed, turn):
    pixels = np.rint(255 * smooth(seed)).astype(np.uint8)
    turned = Rotation(turn)(pixels.transpose(1, 2, 0), np.random.default_rng(0))
    view = thumbnail(turned.transpose(2, 0, 1).astype(np.float32) / 255)
    [whole] = CODE.logits(thumbnail(pixels.astype(np.float32) / 255)[None])
    [seen] = CODE.code(view, straightened(turn))
    assert min(cosines(whole, seen)) > 0.9


def test_frames_are_the_same_together_and_one_by_one():
    [view] = noise(3)
    frames = [WHOLE, Frame(0.9, 0.5, 0.45), straightened(3.0), Frame(0.8, 0.55, 0.5, -2.0)]
    together = CODE.framed(View(view), rows_of(*frames))
    for row, frame in enumerate(frames):
        np.testing.assert_allclose(together[row], CODE.code(view, frame)[0], atol=1e-4)
    low = CODE.framed(View(view), rows_of(*frames), bands=1)
    np.testing.assert_allclose(low, together[:, : CODE.bands[0]], atol=1e-4)


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_pulling_back_is_the_transpose(seed):
    """<w, B d> = <B^T w, d> for every change d whose tapered mean is zero."""
    weights = np.random.RandomState(seed).standard_normal(CODE.dimensions).astype(np.float32)
    [change] = noise(seed)
    change -= np.tensordot(change, TAPERED, 2)[:, None, None]
    back = CODE.pull_back(weights)
    moved = CODE.logits(change[None])[0]
    scale = np.linalg.norm(back) * np.linalg.norm(change)
    assert abs(float(weights @ moved) - float(np.vdot(back, change))) < 1e-4 * scale


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_the_gram_matrix_is_that_of_pulling_back(seed):
    rng = np.random.RandomState(seed)
    one, other = rng.standard_normal((2, CODE.dimensions)).astype(np.float32)
    inner = float(np.vdot(CODE.pull_back(one), CODE.pull_back(other)))
    np.testing.assert_allclose(float(one @ CODE.gram @ other), inner, rtol=1e-3, atol=0.01)
