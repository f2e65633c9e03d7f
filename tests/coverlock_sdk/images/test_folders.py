from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.folders import find_pictures, pictures_in, search, split
from coverlock_sdk.testing import natural_pictures


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


def test_hidden_files_are_not_pictures(folder: Path) -> None:
    for name in ("._a.jpg", ".thumbnail.png", "more/._c.png", ".trash/d.jpg", "__MACOSX/._b.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    assert names(folder) == ["a.png", "b.jpg", str(Path("more") / "c.png")]
    assert pictures_in(folder, deep=False) == [folder / "a.png", folder / "b.jpg"]
    assert search([str(folder)]).skipped == 1
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "e.png").touch()
    assert names(folder / ".hidden") == ["e.png"]  # it was named


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "AVIF"])
def test_a_file_without_a_suffix_is_known_by_its_content(tmp_path: Path, format: str) -> None:
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow knows no AVIF")
    Image.new("RGB", (64, 64)).save(tmp_path / "picture", format)
    (tmp_path / "text").write_text("A text without a suffix.")
    (tmp_path / "empty").touch()
    assert names(tmp_path) == ["picture"]
    assert search([str(tmp_path)]).skipped == 2


def test_what_lies_in_a_folder_without_pictures_is_counted(tmp_path: Path) -> None:
    for name in ("a.txt", "b.mov"):
        (tmp_path / name).touch()
    with pytest.raises(PictureError, match="contains no pictures, only 2 other files"):
        find_pictures([str(tmp_path)])


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)


def test_a_heic_picture_is_an_error_where_it_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for name in ("IMG_1.HEIC", "IMG_2", "IMG_3.jpg"):
        (tmp_path / name).write_bytes(HEIC)
    found = find_pictures([str(tmp_path)])
    assert len(found) == 3
    for source in found:
        with pytest.raises(PictureError, match=r"IMG_.*pip install 'coverlock-sdk\[heic\]'"):
            read(source.path)
    (tmp_path / "text.heic").write_text("not a picture")
    with pytest.raises(PictureError, match="text.heic is not a picture"):
        read(tmp_path / "text.heic")


def test_a_heic_picture_is_opened_with_pillow_heif(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    photo = natural_pictures(1, (96, 128), seed=1)[0]
    pillow_heif.from_pillow(Image.fromarray(photo)).save(tmp_path / "photo.heic", quality=95)
    [source] = find_pictures([str(tmp_path)])
    seen = read(source.path).to_bytes()
    assert np.abs(seen.astype(int) - photo).mean() < 4


def test_a_name_decides_on_which_side_a_picture_is(tmp_path):
    folder, few = tmp_path / "all", tmp_path / "few"
    for each in (folder, few):
        each.mkdir()
    for number in range(12):
        (folder / f"{number:03}.png").touch()
    training, validation = split(folder, 0.3)
    assert len(training) + len(validation) == 12
    assert not set(training) & set(validation)
    for path in (training[0], training[1], validation[0]):
        (few / path.name).touch()
    again = split(few, 0.3)
    assert [path.name for path in again[0]] == [training[0].name, training[1].name]


def test_an_empty_folder_cannot_be_split(tmp_path):
    with pytest.raises(PictureError, match=tmp_path.name):
        split(tmp_path, 0.1)
