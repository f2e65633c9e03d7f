"""Drawn pictures: the same for the same seeds, and held out where they claim to be."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("matplotlib")

from coverlock_sdk.testing import natural_pictures
from coverlock_training.kinds.catalogue import KINDS, photos_from
from coverlock_training.kinds.collection import TOGETHER, draw_sets, draw_templates
from coverlock_training.kinds.fonts import PILLOW, fonts_of
from coverlock_training.kinds.words import words_of


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    paths = [folder / f"{number}.png" for number in range(8)]
    for path, picture in zip(paths, natural_pictures(8, (64, 96), seed=4), strict=True):
        Image.fromarray(picture).save(path)
    return paths


@pytest.fixture(scope="module")
def photo(files):
    return photos_from(files)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("split", ["training", "evaluation"])
def test_seeds_decide_over_every_picture(name, split, photo):
    first, again, other = (KINDS[name].draw(split, 0, seed, photo) for seed in (0, 0, 1))
    assert first.mode == "RGB"
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize("name", KINDS)
def test_no_design_is_both_trained_on_and_judged_by(name):
    assert KINDS[name].evaluation not in KINDS[name].training


def test_fonts_and_words_of_evaluation_are_held_out():
    training, evaluation = (
        {Path(file).stem for files in fonts_of(split).files.values() for file in files}
        for split in ("training", "evaluation")
    )
    assert PILLOW in evaluation
    assert not training & evaluation
    shared = {*words_of("training").words} & {*words_of("evaluation").words}
    assert len(shared) < 0.1 * len(words_of("evaluation").words)  # short ones, now and then


def test_pictures_of_one_template_share_their_layout(photo):
    draw = KINDS["ID cards"].draw
    pictures = [draw("training", t, c, photo) for t, c in ((0, 0), (0, 1), (1, 0))]
    small = [np.asarray(p.resize((32, 20)), dtype=float) for p in pictures]
    assert np.abs(small[0] - small[1]).mean() < 0.5 * np.abs(small[0] - small[2]).mean()


def test_a_collection_is_drawn_once(files, tmp_path, monkeypatch):
    few = {name: KINDS[name] for name in ("portraits", "bar codes")}
    monkeypatch.setattr("coverlock_training.kinds.collection.KINDS", few)

    def drawn() -> list[list[int]]:
        groups = draw_templates(tmp_path, 2, files)
        return [[path.stat().st_mtime_ns for path in group] for group in groups]

    times = drawn()
    assert [len(group) for group in times] == [TOGETHER] * 4
    assert drawn() == times
    sets = draw_sets(tmp_path, 3, files)
    assert [len(members) for members in sets["bar codes"]] == [3, 3]
    assert [len(members) for members in sets["portraits"]] == [3]
    assert len({path for groups in sets.values() for members in groups for path in members}) == 9
