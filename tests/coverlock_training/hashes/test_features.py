from collections.abc import Sequence

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_plugins.dinov2.head import Backbone  # noqa: E402
from coverlock_sdk.images.distortions import EVALUATION, draw_training_distortion  # noqa: E402
from coverlock_training.hashes.features import (  # noqa: E402
    evaluation_features,
    features_of,
    training_features,
)
from coverlock_training.photos import rgb, shrunk  # noqa: E402
from tests.conftest import saved_pictures  # noqa: E402


class Averages(Backbone):
    """A frozen backbone in a line: the mean colour of each of 4 x 4 cells."""

    size, features = 32, 48
    settings = {"cells": 4}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.pool = torch.nn.Conv2d(3, 3, 8, stride=8, groups=3, bias=False)
        torch.nn.init.constant_(self.pool.weight, 1 / 64)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.pool(images).flatten(1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return sorted(saved_pictures(tmp_path_factory.mktemp("photos"), 5, (96, 128), 2).iterdir())


def features(pictures: Sequence[np.ndarray]) -> np.ndarray:
    views = np.stack([shrunk(picture, 32) for picture in pictures])
    return features_of(Averages(), torch.from_numpy(views))


def test_training_features_are_those_of_drawn_views(paths, tmp_path):
    found = training_features(Averages(), paths, 3, tmp_path, seed=4)
    assert found.shape == (5, 4, 48)
    picture, rng = rgb(paths[1]), np.random.default_rng([4, *paths[1].name.encode()])
    views = [picture, *(draw_training_distortion(rng)(picture, rng) for _ in range(3))]
    np.testing.assert_allclose(found[1], features(views), atol=1e-6)


def test_held_out_features_are_those_of_the_evaluation(paths, tmp_path):
    found = evaluation_features(Averages(), paths, tmp_path)
    assert found.shape == (5, 8, 48)
    picture, rng = rgb(paths[2]), np.random.default_rng([0, *paths[2].name.encode()])
    views = [picture, *(distort(picture, rng) for distort in EVALUATION.values())]
    np.testing.assert_allclose(found[2, :7], features(views), atol=1e-6)
