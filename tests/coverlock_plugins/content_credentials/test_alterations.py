import numpy as np
import pytest

from coverlock_plugins.content_credentials.alterations import CELLS, alterations, thumbnail_of
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import Brightness, Contrast, GaussianNoise, Jpeg


@pytest.mark.parametrize(
    "distortion", [Jpeg(80), Brightness(1.2), Contrast(0.8), GaussianNoise(0.02)]
)
def test_what_happens_to_every_picture_is_no_alteration(photos, distortion):
    changed = distortion(photos[0], np.random.default_rng(0))
    found = alterations(thumbnail_of(read(photos[0])), read(changed))
    assert found.comparable
    assert not found.altered.any()


def test_a_pasted_part_is_found_where_it_is(photos):
    edited = photos[0].copy()
    height, width = edited.shape[:2]
    edited[: height // 4, : width // 4] = photos[1][: height // 4, : width // 4]
    found = alterations(thumbnail_of(read(photos[0])), read(edited)).altered
    assert found[:3, :3].any()
    assert not found[CELLS // 2 :].any()


def test_another_picture_and_a_cropped_one_are_not_comparable(photos):
    found = alterations(thumbnail_of(read(photos[0])), read(photos[1]))
    assert not found.comparable
    assert not alterations(
        thumbnail_of(read(photos[0])), read(photos[0][16:-16, 16:-16])
    ).comparable
