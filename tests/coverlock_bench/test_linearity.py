from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_bench.hashes.linearity import linearity
from coverlock_sdk import ImageHash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.testing import natural_pictures


class Projection(ImageHash):
    """Random directions of a picture, or their products with one another."""

    input_size = (16, 16)

    def __init__(self, linear: bool) -> None:
        self.name = "linear" if linear else "quadratic"
        self.linear = linear

    def logits(self, images: Images) -> Logits:
        rng = np.random.default_rng(0)
        directions = rng.standard_normal((2, 3 * 16 * 16, 256)).astype(np.float32)
        first, second = (images.reshape(len(images), -1) - 0.5) @ directions
        return first if self.linear else first * second


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{number}.png" for number in range(6)]
    for file, picture in zip(files, natural_pictures(6, (256, 256), seed=1), strict=True):
        Image.fromarray(picture).save(file)
    return files


def test_a_linear_hash_is_foretold_and_another_is_not(photos: list[Path]) -> None:
    linear, other = (linearity(Projection(kind), photos) for kind in (True, False))
    assert linear["pairs"] == 3
    assert linear["foretold"] > 0.97
    assert linear["cosine"] > 0.99
    assert other["foretold"] < 0.9
    shares = list(linear["mixed_in"].values())
    assert shares == sorted(shares)
