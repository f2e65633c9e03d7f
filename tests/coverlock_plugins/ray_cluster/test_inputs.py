import pickle
import socket
from pathlib import Path

import pyarrow.fs
import pytest
from PIL import Image

from coverlock_plugins.ray_cluster.inputs import Place, find_shards, load_below
from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.scaling.job import Prepared, prepare

pa = pytest.importorskip("pyarrow", reason="pip install 'coverlock-sdk[dev]'")


pq = pytest.importorskip("pyarrow.parquet")


ODD_NAMES = ["a b.png", "ü.png", "a#1.png", "%41.png", "q?.png", "plain.JPG"]


DECODERS = DecodingPool(1)


@pytest.fixture(scope="module", autouse=True)
def _close_decoders():
    yield
    DECODERS.close()


def decoded(item) -> Prepared:
    return prepare(item, (32, 32), DECODERS)


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 48), "teal").save(path)
    return path


def table(path: Path, /, row_group_size: int | None = None, **columns) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return str(path)


def errors(*sources, with_message: bool = True, roots=()) -> dict[str, str | None]:
    """What is wrong with each picture that ``sources`` name, as another process sees it."""
    parts = pickle.loads(pickle.dumps(find_shards(map(str, sources), with_message, roots)))
    items = [item for part in parts for item in part.items()]
    found = {item.file: decoded(item) for item in items}
    assert all((p.picture is None) == (p.error is not None) for p in found.values())
    return {name: prepared.error for name, prepared in found.items()}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_pictures_of_any_name_are_found_and_read(tmp_path, scheme):
    for name in ODD_NAMES:
        picture(tmp_path / "my photos" / name)
    (tmp_path / "my photos" / "notes.txt").touch()
    found = errors(f"{scheme}{tmp_path}/my photos")
    assert found == {f"{scheme}{tmp_path}/my photos/{name}": None for name in ODD_NAMES}


def test_an_object_that_is_gone_when_its_turn_comes_is_an_error(tmp_path):
    for name in "ab":
        picture(tmp_path / f"{name}.png")
    parts = list(find_shards([f"file://{tmp_path}"], with_message=True))
    (tmp_path / "a.png").unlink()
    gone, there = (decoded(item) for item in parts[0].items())
    assert "a.png cannot be read" in gone.error
    assert there.error is None


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
    assert "is more than a path" in odd


def attacked(tmp_path, *paths: str, roots=()) -> list[str | None]:
    """What comes of rows that somebody else wrote."""
    picture(tmp_path / "outside" / "secret.png")
    picture(tmp_path / "in" / "a.png")
    source = table(
        tmp_path / "in" / "rows.parquet", file=[str(n) for n, _ in enumerate(paths)], path=paths
    )
    return list(errors(source, roots=roots).values())


def test_rows_cannot_leave_the_folder_of_their_source(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.png").symlink_to(tmp_path / "outside" / "secret.png")
    there, gone = f"{tmp_path}/outside/secret.png", f"{tmp_path}/outside/gone.png"
    rows = [there, f"file://{there}", "../outside/secret.png", "link.png", gone, "/etc/shadow"]
    rows += [
        f"{tmp_path}/in/../outside/secret.png",
        f"file://{tmp_path}/in/%2e%2e/outside/secret.png",
    ]
    found = attacked(tmp_path, *rows)
    words = {error.partition(" is not below")[2] for error in found}
    assert len(words) == 1  # the same whether the file exists or not
    assert words != {""}
    assert attacked(tmp_path, there, "a.png", roots=[f"{tmp_path}/outside"]) == [None, None]


@pytest.mark.parametrize(
    "path",
    [
        "s3://b/k?endpoint_override=127.0.0.1:{port}&scheme=http",
        "s3://key:secret@b/k?endpoint_override=http%3A%2F%2F127.0.0.1:{port}",
        "s3://b/k",
        "gs://b/k?endpoint_override=127.0.0.1:{port}",
        "hdfs://127.0.0.1:{port}/k",
        "http://127.0.0.1:{port}/a.png",
    ],
)
def test_no_row_makes_a_worker_call_a_server(tmp_path, path):
    """Signed requests went to whatever host a row named as its endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        [error] = attacked(tmp_path, path.format(port=port))
        assert "--root" in error
        with pytest.raises(TimeoutError):
            server.accept()


def test_an_object_store_is_read_below_its_root_only(tmp_path):
    picture(tmp_path / "bucket" / "day" / "a.png")
    picture(tmp_path / "bucket" / "other" / "b.png")
    root = Place("s3://bucket/day", pyarrow.fs.LocalFileSystem(), f"{tmp_path}/bucket/day")
    assert load_below([root], "a", "s3://bucket/day/a.png").startswith(b"\x89PNG")
    outside = [
        "s3://bucket/other/b.png",
        "s3://bucket/day/../other/b.png",
        "s3://bucket/daylight/b",
    ]
    outside += [
        "s3://bucket/day/a.png?region=x",
        "s3://bucket/day//a.png",
        "s3://bucket/day/%2e%2e/b",
    ]
    for path in [*outside, "a.png", f"{tmp_path}/bucket/day/a.png"]:
        with pytest.raises(PictureError, match="--root"):
            load_below([root], "a", path)
    with pytest.raises(PictureError, match="a cannot be read") as caught:
        load_below([root], "a", "s3://bucket/day/gone.png")
    assert str(tmp_path) not in str(caught.value)


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
        find_shards([source], with_message=True)


def test_the_message_is_named_once(tmp_path):
    path = str(picture(tmp_path / "a.png"))
    with pytest.raises(MessageError, match="with --id"):
        find_shards([path], with_message=False)
    without = table(tmp_path / "without.parquet", path=[path])
    with pytest.raises(MessageError, match="no column 'id': name the identifier with --id"):
        find_shards([without], with_message=False)
    having = table(tmp_path / "having.parquet", path=[path], id=["bob"])
    with pytest.raises(MessageError, match="has a column 'id'.*leave out --id"):
        find_shards([having], with_message=True)


def test_rows_are_cut_into_shards_that_lose_none(tmp_path, monkeypatch):
    monkeypatch.setattr("coverlock_plugins.ray_cluster.inputs.PICTURES_PER_SHARD", 3)
    path = str(picture(tmp_path / "a.png"))
    names = [str(number) for number in range(12)]
    source = table(tmp_path / "in.parquet", row_group_size=7, file=names, path=[path] * 12)
    shards = find_shards([source], with_message=True)
    found = [[item.file for item in shard.items()] for shard in shards]
    assert found == [names[:3], names[3:6], names[6:7], names[7:10], names[10:]]
    assert len({shard.name for shard in shards}) == 5


def test_parquet_whose_columns_have_no_readable_names_is_refused(tmp_path):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"path": ["a.png"], "zzzz": ["b"]}), file, store_schema=False)
    file.write_bytes(file.read_bytes().replace(b"zzzz", b"\xffzzz"))
    with pytest.raises(PictureError, match="is not Parquet of pictures"):
        find_shards([str(file)], with_message=True)
