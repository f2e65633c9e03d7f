from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from coverlock_sdk.images.resampling import resample  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training.hashes.views import (  # noqa: E402
    ComposedViews,
    Composition,
    FreshViews,
    evaluation_views,
)

UNCHANGED = Composition(crop=0, brightness=0, contrast=0, blur=0, noise=0, jpeg=0)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, picture in enumerate(natural_pictures(12, (256, 256), seed=2)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


@pytest.fixture
def paths(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_fresh_views_are_repeatable_and_distorted(paths: list[Path]) -> None:
    views = FreshViews(paths, 32)
    rows = np.arange(6)
    clean, distorted = views.pairs(rows, np.random.default_rng(3))
    again = views.pairs(rows, np.random.default_rng(3))
    assert clean.shape == distorted.shape == (6, 3, 32, 32)
    assert torch.equal(distorted, again[1])
    assert all((clean[i] != distorted[i]).any() for i in range(6))


def test_composed_views_without_changes_are_the_picture(paths: list[Path], tmp_path: Path) -> None:
    views = ComposedViews(paths, 64, tmp_path, UNCHANGED)
    clean, distorted = views.pairs(np.arange(4), np.random.default_rng(0))
    torch.testing.assert_close(clean, distorted, atol=1e-3, rtol=0)
    picture = np.asarray(Image.open(paths[0])).transpose(2, 0, 1).astype(np.float32) / 255
    np.testing.assert_allclose(clean[0].numpy(), resample(picture, (64, 64)), atol=0.03)


def test_a_composed_crop_is_a_crop(paths: list[Path], tmp_path: Path) -> None:
    cropping = replace(UNCHANGED, crop=1.0, area=(0.8, 0.8), centred=1.0)
    views = ComposedViews(paths, 64, tmp_path, cropping)
    _, cropped = views.pairs(np.arange(4), np.random.default_rng(0))
    picture = np.asarray(Image.open(paths[0])).transpose(2, 0, 1).astype(np.float32) / 255
    expected = resample(picture[:, 13:-13, 13:-13], (64, 64))  # 229 or 230 of 256 pixels
    whole = resample(picture, (64, 64))
    error = np.abs(cropped[0].numpy() - expected).mean()
    assert error < 0.02
    assert error < 0.3 * np.abs(whole - expected).mean()


def test_brightness_clips_like_the_real_one(paths: list[Path], tmp_path: Path) -> None:
    brighter = replace(UNCHANGED, brightness=1.0, brightness_factor=(1.5, 1.5))
    views = ComposedViews(paths, 64, tmp_path, brighter)
    clean, bright = views.pairs(np.arange(4), np.random.default_rng(0))
    torch.testing.assert_close(bright, (1.5 * clean).clamp(0, 1), atol=1e-3, rtol=0)


def test_noise_has_the_strength_it_has_after_shrinking(paths: list[Path], tmp_path: Path) -> None:
    noisy = replace(UNCHANGED, noise=1.0, noise_sigma=(0.05, 0.05))
    views = ComposedViews(paths, 64, tmp_path, noisy)
    clean, distorted = views.pairs(np.arange(8), np.random.default_rng(0))
    inside = (clean > 0.2) & (clean < 0.8)
    rng = np.random.default_rng(1)
    real = resample(rng.normal(0, 0.05, (3, 256, 256)).astype(np.float32), (64, 64)).std()
    assert (distorted - clean)[inside].std().item() == pytest.approx(real, rel=0.1)


def test_both_views_are_seen_through_the_same_window(paths: list[Path], tmp_path: Path) -> None:
    views = ComposedViews(paths, 64, tmp_path, UNCHANGED, zooms=[0.5])
    clean, distorted = views.pairs(np.arange(4), np.random.default_rng(0))
    torch.testing.assert_close(clean, distorted, atol=1e-3, rtol=0)
    picture = np.asarray(Image.open(paths[0])).transpose(2, 0, 1).astype(np.float32) / 255
    centre = resample(picture[:, 64:192, 64:192], (64, 64))
    assert np.corrcoef(clean[0].numpy().ravel(), centre.ravel())[0, 1] > 0.98


def test_evaluation_views_hold_the_clean_picture_first(paths: list[Path], tmp_path: Path) -> None:
    views = evaluation_views(paths[:2], 32, tmp_path)
    assert views.shape == (2, 7, 3, 32, 32)
    picture = np.asarray(Image.open(paths[1])).transpose(2, 0, 1).astype(np.float32) / 255
    np.testing.assert_allclose(views[1, 0] / 255, resample(picture, (32, 32)), atol=0.003)
