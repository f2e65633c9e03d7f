import sys
from pathlib import Path

import pytest

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.folders import find_pictures, pictures_in, search, split


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "more").mkdir()
    for name in ("a.png", "b.jpg", "notes.txt", "more/c.png"):
        (tmp_path / name).touch()
    return tmp_path


def names(*arguments: object) -> list[str]:
    return [str(source.relative) for source in find_pictures(map(str, arguments))]


def test_folders_are_searched_in_depth_and_patterns_are_not(folder):
    assert names(folder) == ["a.png", "b.jpg", str(Path("more") / "c.png")]
    assert names(folder / "*.png") == ["a.png"]
    assert names(folder / "**" / "*.png") == ["a.png", "c.png"]
    assert names(folder / "b.jpg", folder / "missing.png") == ["b.jpg", "missing.png"]


def test_what_holds_no_picture_is_named(folder):
    (folder / "empty").mkdir()
    (folder / "other").mkdir()
    for name in ("a.txt", "b.mov"):
        (folder / "other" / name).touch()
    for pattern, complaint in (
        ("*.webp", "no file matches"),
        ("mor*", "no file matches"),
        ("empty", "contains no pictures"),
        ("other", "contains no pictures, only 2 other files"),
    ):
        with pytest.raises(PictureError, match=complaint):
            find_pictures([str(folder / pattern)])


def test_hidden_files_are_not_pictures(folder):
    for name in ("._a.jpg", ".thumbnail.png", "more/._c.png", ".trash/d.jpg", "__MACOSX/._b.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    assert names(folder) == ["a.png", "b.jpg", str(Path("more") / "c.png")]
    assert pictures_in(folder, deep=False) == [folder / "a.png", folder / "b.jpg"]
    assert search([str(folder)]).skipped == 1
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "e.png").touch()
    assert names(folder / ".hidden") == ["e.png"]  # it was named


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)


def test_a_heic_picture_is_an_error_where_it_cannot_be_opened(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for name in ("IMG_1.HEIC", "IMG_2.heif", "IMG_3.jpg"):
        (tmp_path / name).write_bytes(HEIC)
    found = find_pictures([str(tmp_path)])
    assert len(found) == 3
    for source in found:
        with pytest.raises(PictureError, match=r"IMG_.*pip install 'coverlock-sdk\[heic\]'"):
            read(source.path)
    (tmp_path / "text.heic").write_text("not a picture")
    with pytest.raises(PictureError, match="text.heic is not a picture"):
        read(tmp_path / "text.heic")


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
