from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest
from PIL import Image

from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.scaling.job import Prepared, prepare

pa = pytest.importorskip("pyarrow", reason="pip install 'coverlock-sdk[dev]'")
pq = pytest.importorskip("pyarrow.parquet")

from coverlock_sdk.scaling.inputs import find_parts  # noqa: E402 (needs pyarrow)

ODD_NAMES = ["a b.png", "ü.png", "a#1.png", "%41.png", "q?.png", "plain.JPG"]


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 48), "teal").save(path)
    return path


def table(path: Path, /, row_group_size: int | None = None, **columns) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return str(path)


def items(*sources, with_message: bool = True):
    """What ``sources`` name, as another process sees it."""
    parts = pickle.loads(pickle.dumps(find_parts(map(str, sources), with_message)))
    return [item for part in parts for item in part.items()]


def read(*sources, with_message: bool = True) -> dict[str, Prepared]:
    found = items(*sources, with_message=with_message)
    return {item.file: prepare(item.file, (32, 32), item.load) for item in found}


def errors(*sources, with_message: bool = True) -> dict[str, str | None]:
    found = read(*sources, with_message=with_message)
    assert all((p.pixels is None) == (p.error is not None) for p in found.values())
    return {name: prepared.error for name, prepared in found.items()}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_pictures_of_any_name_are_found_and_read(tmp_path, scheme):
    for name in ODD_NAMES:
        picture(tmp_path / "my photos" / name)
    (tmp_path / "my photos" / "notes.txt").touch()
    found = errors(f"{scheme}{tmp_path}/my photos")
    assert found == {f"{scheme}{tmp_path}/my photos/{name}": None for name in ODD_NAMES}


@pytest.mark.parametrize("spelling", ["one photo.jpg", "one%20photo.jpg"])
def test_a_single_object_is_a_source(tmp_path, spelling):
    path = picture(tmp_path / "one photo.jpg")
    assert errors(f"file://{tmp_path}/{spelling}") == {f"file://{path}": None}


def test_an_object_that_is_gone_when_its_turn_comes_is_an_error(tmp_path):
    for name in "ab":
        picture(tmp_path / f"{name}.png")
    parts = find_parts([f"file://{tmp_path}"], with_message=True)
    (tmp_path / "a.png").unlink()
    gone, there = (prepare(item.file, (32, 32), item.load) for item in parts[0].items())
    assert "a.png cannot be read" in gone.error
    assert there.error is None


def test_what_cannot_be_listed_is_said_in_one_sentence(tmp_path):
    with pytest.raises(PictureError, match="nothing cannot be listed"):
        find_parts([f"file://{tmp_path}/nothing"], with_message=True)
    with pytest.raises(PictureError, match="cannot be listed"):
        find_parts(["gopher://photos"], with_message=True)
    for source in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(PictureError, match=f"no pictures below {source}"):
            find_parts([source], with_message=True)


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 elsewhere")
def test_a_name_that_is_not_utf8_is_escaped(tmp_path):
    picture(tmp_path / "a.png").rename(tmp_path / os.fsdecode(b"\xff.png"))
    assert errors(tmp_path) == {f"{tmp_path}/\\xff.png": None}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_of_parquet_is_recognised(tmp_path, scheme):
    path = str(picture(tmp_path / "a.png"))
    for name in ("one", "two"):
        table(tmp_path / "day=1" / f"{name}.parquet", file=[name], path=[path])
    assert list(errors(f"{scheme}{tmp_path / 'day=1'}")) == ["one", "two"]
    assert list(errors(f"{scheme}{tmp_path}")) == [f"{scheme}{path}"]  # it has a picture
    Path(path).rename(tmp_path / "day=1" / "a.png")
    assert list(errors(f"{scheme}{tmp_path / 'day=1'}")) == ["one", "two"]  # though it has one too


def test_parquet_names_pictures_by_path_or_uri(tmp_path):
    path = str(picture(tmp_path / "a b.png"))
    uris = [f"file://{path}", f"file://{path}".replace(" ", "%20")]
    source = table(tmp_path / "in.parquet", path=[path, *uris, f"{path}.gone", "odd\0name.png"])
    *good, gone, odd = errors(source).values()
    assert good == [None] * 3
    assert "does not exist" in gone
    assert "cannot be read" in odd


def test_a_row_of_parquet_that_lacks_something_does_not_stop_the_others(tmp_path):
    path = str(picture(tmp_path / "a.png"))
    content = Path(path).read_bytes()
    source = table(
        tmp_path / "in.parquet",
        row_group_size=2,
        file=["full", None, "", None, "empty", "nobody's"],
        path=[None, path, path + "?", None, None, path],
        bytes=[content, None, content, content, None, None],
        id=["alice", "bob", "alice", "bob", "alice", None],
    )
    found = errors(source, with_message=False)
    assert found == {
        "full": None,
        path: None,
        path + "?": None,
        f"row 4 of {source}": f"row 4 of {source} has no name: fill the column 'file'",
        "empty": "empty has neither a path nor bytes",
        "nobody's": "there is no identifier to look for in nobody's: fill the column 'id'",
    }


def test_numbers_are_names_and_identifiers_too(tmp_path):
    path = str(picture(tmp_path / "a.png"))
    source = table(tmp_path / "in.parquet", file=[0, 1], path=[path, path], id=[17, None])
    found = items(source, with_message=False)
    assert [(item.file, item.id) for item in found] == [("0", "17"), ("1", None)]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"name": ["a"]}, "neither a column 'path' nor 'bytes': its columns are name"),
        ({"bytes": [b"a"]}, "add a column 'file'"),
        ({"file": ["a"], "bytes": ["/9j/4AAQ"]}, "'bytes' of .* holds string"),
        ({"path": [["a", "b"]]}, "not Parquet of pictures"),
        ({"path": pa.array([], pa.string())}, "have no rows"),
    ],
)
def test_parquet_of_other_things_is_refused(tmp_path, columns, complaint):
    source = table(tmp_path / "in.parquet", **columns)
    with pytest.raises(PictureError, match=complaint):
        find_parts([source], with_message=True)


def test_files_that_are_not_parquet_are_refused(tmp_path):
    (tmp_path / "in.parquet").write_text("no")
    for name in ("in.parquet", "gone.parquet"):
        with pytest.raises(PictureError, match=f"{name} is not Parquet of pictures"):
            find_parts([str(tmp_path / name)], with_message=True)


def test_the_message_is_named_once(tmp_path):
    path = str(picture(tmp_path / "a.png"))
    with pytest.raises(MessageError, match="either --id or --bits"):
        find_parts([path], with_message=False)
    without = table(tmp_path / "without.parquet", path=[path])
    with pytest.raises(MessageError, match="no column 'id': name the message with --id or --bits"):
        find_parts([without], with_message=False)
    having = table(tmp_path / "having.parquet", path=[path], id=["bob"])
    with pytest.raises(MessageError, match="has a column 'id'.*leave out --id and --bits"):
        find_parts([having], with_message=True)


def test_a_picture_that_is_named_twice_is_refused(tmp_path):
    path = str(picture(tmp_path / "photos" / "a.png"))
    columns = {"file": ["x", "y", "x"], "path": [path] * 3}
    doubled = table(tmp_path / "doubled.parquet", row_group_size=1, **columns)
    once = table(tmp_path / "once.parquet", path=[path])
    photos = str(tmp_path / "photos")
    for sources, name in (([doubled], "x"), ([once, path], path), ([path, photos], path)):
        with pytest.raises(PictureError, match=f"{name} is named twice"):
            find_parts(sources, with_message=True)
    twice = table(tmp_path / "twice.parquet", **columns, id=["alice", "alice", "bob"])
    assert len(items(twice, with_message=False)) == 3
    again = table(tmp_path / "again.parquet", **columns, id=["alice", "alice", "alice"])
    with pytest.raises(PictureError, match="x for 'alice' is named twice"):
        find_parts([again], with_message=False)
