from __future__ import annotations

import numpy as np
import pytest

from coverlock_plugins.content_credentials.alterations import CELLS, alterations, thumbnail_of
from coverlock_sdk.images.codecs import decode_image
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


def test_altered_cells_are_red(photos):
    edited = photos[0].copy()
    edited[:40, :48] = 255 - edited[:40, :48]
    found = alterations(thumbnail_of(read(photos[0])), read(edited))
    shown = np.asarray(found.shown_on(read(edited))).astype(int)
    redness = shown[..., 0] - shown[..., 1]
    assert redness[10:30, 10:40].min() > 100
    assert redness[100:].max() == 0


def test_the_map_as_text_and_as_json(photos):
    found = alterations(thumbnail_of(read(photos[0])), read(photos[0]))
    assert str(found).split("\n") == ["." * CELLS] * CELLS == found.to_dict()["cells"]


def test_thumbnails_keep_their_shape_and_are_small(photos):
    large = np.kron(photos[0], np.ones((4, 4, 1), np.uint8))
    thumbnail = thumbnail_of(read(large))
    assert read(decode_image(thumbnail)).size == (213, 256)
    assert len(thumbnail) < 60_000
