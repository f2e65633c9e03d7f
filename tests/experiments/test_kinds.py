"""Drawn pictures are the same for the same seeds, and kinds are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

pytest.importorskip("matplotlib")

from coverlock_sdk import load_hash
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.distortions import EVALUATION
from experiments.__main__ import studies
from experiments.kinds.compare import KINDS as TABLE
from experiments.kinds.compare import kind_report
from experiments.kinds.desk import photos_from
from experiments.kinds.draw import KINDS, drawn
from tests.conftest import saved_pictures


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return sorted(saved_pictures(tmp_path_factory.mktemp("photos"), 8, (64, 96), 4).iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_the_place_decides_over_every_picture(kind: str, files: list[Path]) -> None:
    first, again, other = (drawn(kind, place, photos_from(files)) for place in (0, 0, 1))
    assert first.mode == "RGB"
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_every_kind_is_a_folder(files: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "kinds"
    command = ["draw", str(folder), "--images", str(files[0].parent), "--count", "2"]
    result = CliRunner().invoke(studies, command)
    assert result.exit_code == 0, result.output
    assert {path.name for path in folder.iterdir()} == set(KINDS)
    assert len(list(folder.rglob("*.png"))) == 2 * len(KINDS)


@pytest.fixture
def forms(tmp_path: Path, photos: np.ndarray) -> Path:
    """A folder with three pages of a form that differ in one field."""
    folder = tmp_path / "kinds" / "forms"
    folder.mkdir(parents=True)
    for index in range(3):
        page = photos[0].copy()
        page[: 8 * index, :16] = 0
        Image.fromarray(page).save(folder / f"{index}.png")
    return folder


def test_the_pictures_of_every_subfolder_are_compared(forms: Path) -> None:
    figures = kind_report({"octave": load_hash("octave")}, forms.parent, seed=0)
    compared = figures["octave"]["forms"]
    assert compared["pairs"] == 3
    assert compared["mean"] > 0.8
    assert list(compared["bit_error"]) == list(EVALUATION)
    assert "| forms |" in TABLE.markdown(figures)


def test_a_picture_alone_cannot_be_told_apart(forms: Path) -> None:
    for extra in sorted(forms.iterdir())[1:]:
        extra.unlink()
    with pytest.raises(PictureError, match="the subfolder 'forms'"):
        kind_report({}, forms.parent, seed=0)
