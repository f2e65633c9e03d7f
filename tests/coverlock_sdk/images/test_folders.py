from __future__ import annotations

from pathlib import Path

import pytest

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.folders import find_pictures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    for name in ("a.png", "b.jpg", "notes.txt", "more/c.png"):
        (tmp_path / name).touch()
    return tmp_path


def names(*arguments: object) -> list[str]:
    return [str(source.relative) for source in find_pictures(map(str, arguments))]


def test_folders_are_searched_in_depth_and_patterns_are_not(folder: Path) -> None:
    assert names(folder) == ["a.png", "b.jpg", str(Path("more") / "c.png")]
    assert names(folder / "*.png") == ["a.png"]
    assert names(folder / "**" / "*.png") == ["a.png", "c.png"]
    assert names(folder / "b.jpg", folder / "missing.png") == ["b.jpg", "missing.png"]


@pytest.mark.parametrize("pattern", ["*.webp", "mor*"])
def test_a_pattern_without_files_is_named(folder: Path, pattern: str) -> None:
    with pytest.raises(PictureError, match="no file matches"):
        find_pictures([str(folder / pattern)])


def test_a_folder_without_pictures_is_named(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="contains no pictures"):
        find_pictures([str(tmp_path)])
