"""What there is to verify on a cluster: found by one process, and read by all.

Sources are looked through once and cut into parts, which are small enough to be sent to whoever
reads the pictures: some names, or a piece of a Parquet file.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any, NamedTuple, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.images.codecs import HEAD_BYTES
from coverlock_sdk.images.folders import find_pictures, is_hidden, is_picture
from coverlock_sdk.scaling.roots import Root, chosen_root, load_below, resolved

PICTURES_PER_PART = 64
ROWS_AT_ONCE = 16
"""Of a Parquet file, which may hold pictures of many megabytes."""

KEYS = pa.schema([("file", pa.large_string()), ("id", pa.large_string())])


class Item(NamedTuple):
    """A picture by name, and the identifier to look for in it where it has its own."""

    file: str
    id: str | None
    load: Callable[[], str | bytes]
    """Gives the path of the picture's file, or its content."""


class Part(Protocol):
    """Pictures that one process reads."""

    def items(self) -> Iterator[Item]:
        """The pictures, none of which is read yet."""


class Place(NamedTuple):
    """A file by name, and where it is: on a filesystem of pyarrow, or (None) of this machine."""

    name: str
    system: Any
    path: str

    def load(self) -> str | bytes:
        """The path where that is enough, or else the content."""
        return self.path if self.system is None else _content(self.system, self.path)

    def head(self) -> bytes:
        """The first bytes of the file; none of one that cannot be read."""
        system = self.system or pyarrow.fs.LocalFileSystem()
        try:
            with system.open_input_stream(self.path) as stream:
                return stream.read(HEAD_BYTES)
        except OSError:
            return b""


@dataclass(frozen=True)
class Listed:
    """Picture files."""

    places: Sequence[Place]

    def items(self) -> Iterator[Item]:
        """One for each file."""
        return (Item(place.name, None, place.load) for place in self.places)


@dataclass(frozen=True)
class RowGroup:
    """Rows of a Parquet file that can be read without the others."""

    place: Place
    roots: tuple[Root, ...]
    """Where its rows may name pictures."""
    number: int
    first: int
    """The position of its first row in the file."""
    with_message: bool

    def items(self) -> Iterator[Item]:
        """One for each row."""
        row = self.first
        try:
            with pq.ParquetFile(self.place.path, filesystem=self.place.system) as file:
                columns = _present(file, "file", "path", "id", "bytes")
                for batch in file.iter_batches(ROWS_AT_ONCE, [self.number], columns):
                    for values in zip(*_values(batch), strict=True):
                        row += 1
                        yield self._item(row, *values)
        except (OSError, pa.ArrowException, UnicodeDecodeError):
            name = f"what follows row {row} of {self.place.name}"
            yield Item(name, None, partial(_refuse, f"{name} cannot be read: get the file again"))

    def _item(
        self, row: int, name: str | None, id: str | None, path: str | None, content: bytes | None
    ) -> Item:
        if name is None:
            name = f"row {row} of {self.place.name}"
            return Item(name, id, partial(_refuse, f"{name} has no name: fill the column 'file'"))
        if id is None and not self.with_message:
            missing = f"there is no identifier to look for in {name}: fill the column 'id'"
            return Item(name, id, partial(_refuse, missing))
        return Item(name, id, partial(_load, self.roots, name, path, content))


def find_parts(sources: Iterable[str], with_message: bool, roots: Iterable[str] = ()) -> list[Part]:
    """What ``sources`` name, in parts; a picture that is named twice is refused.

    Rows of Parquet name pictures below the folder of their source, or below ``roots``.

    ``with_message`` says that there is one message for all pictures. Otherwise each needs an
    identifier of its own, which only Parquet can give it.
    """
    chosen = tuple(map(chosen_root, roots))
    tables: list[tuple[Place, tuple[Root, ...]]] = []
    pictures: list[Place] = []
    for source in sources:
        folder, more_tables, more_pictures = _found(source)
        tables += [(table, (_root_of(table, folder), *chosen)) for table in more_tables]
        pictures += more_pictures
    if pictures and not with_message:
        raise MessageError("name the message with either --id or --bits")
    with ThreadPoolExecutor() as pool:
        inspected = list(pool.map(lambda t: _inspected(t[0], t[1], with_message), tables))
    listed = pa.table({"file": [p.name for p in pictures], "id": [None] * len(pictures)})
    keys = pa.concat_tables([listed.cast(KEYS), *(keys for keys, _ in inspected)])
    if not keys.num_rows:
        raise PictureError("there is nothing to verify: the Parquet files have no rows")
    _refuse_doubles(keys)
    starts = range(0, len(pictures), PICTURES_PER_PART)
    parts: list[Part] = [Listed(pictures[start : start + PICTURES_PER_PART]) for start in starts]
    return parts + [group for _, groups in inspected for group in groups]


def _root_of(table: Place, folder: str | None) -> Root:
    """Where the rows of a Parquet file may name pictures: the folder of its source, or its own."""
    path = folder or posixpath.dirname(table.path)
    if table.system is None:
        return Root("", None, path)
    return Root(f"{table.name.removesuffix(table.path)}{path}", table.system, path)


def _found(source: str) -> tuple[str | None, list[Place], list[Place]]:
    """The folder that a source is, if it is one, and its Parquet files and its pictures.

    Of a folder it is one or the other: Parquet that lies in it may well describe pictures further
    down, and Parquet further down may well be the results on the pictures.
    """
    folder, places = _listed_remotely(source) if "://" in source else _listed_here(source)
    tables = [place for place in places if place.path.endswith(".parquet")]
    if folder is None:
        return None, tables, [place for place in places if not place.path.endswith(".parquet")]
    with ThreadPoolExecutor() as pool:
        kept = pool.map(lambda place: is_picture(place.path, place.head), places)
        pictures = [place for place, is_kept in zip(places, kept, strict=True) if is_kept]
    if not tables and not pictures:
        raise PictureError(f"there are no pictures below {source}")
    if not pictures or any(posixpath.dirname(table.path) == folder for table in tables):
        return folder, tables, []
    return folder, [], pictures


def _listed_here(source: str) -> tuple[str | None, list[Place]]:
    """The files below a folder of this machine, and the folder; or the files of a pattern."""
    path = Path(source).resolve()
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if not file.is_dir())
        shown = [file for file in files if not is_hidden(file.relative_to(path))]
        return path.as_posix(), [_here(file) for file in shown]
    return None, [_here(found.path.resolve()) for found in find_pictures([source])]


def _here(path: Path) -> Place:
    """A file of this machine; a name that is not UTF-8, which Parquet cannot hold, is escaped."""
    return Place(os.fsencode(path).decode(errors="backslashreplace"), None, path.as_posix())


def _listed_remotely(uri: str) -> tuple[str | None, list[Place]]:
    """The files below a folder of an object store, and the folder; or a single file."""
    try:
        system, path = resolved(uri)
        folder = None if system.get_file_info(path).is_file else path.rstrip("/")
        if folder is not None:
            listing = system.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise PictureError(f"{uri} cannot be listed ({error})") from None
    paths = [path]
    if folder is not None:
        files = sorted(info.path for info in listing if info.is_file)
        paths = [file for file in files if not is_hidden(PurePath(file[len(folder) :]))]
    scheme = uri.partition("://")[0]
    return folder, [Place(f"{scheme}://{path}", system, path) for path in paths]


def _content(system: Any, path: str) -> bytes:
    with system.open_input_stream(path) as stream:
        return stream.read()


def _load(roots: Sequence[Root], name: str, path: str | None, content: bytes | None) -> str | bytes:
    """What a row of Parquet says of its picture: the content, a URI, or a path of this machine."""
    if content is not None:
        return content
    if path is None:
        raise PictureError(f"{name} has neither a path nor bytes")
    return load_below(roots, name, path)


def _refuse(reason: str) -> NoReturn:
    raise PictureError(reason)


def _inspected(
    table: Place, roots: tuple[Root, ...], with_message: bool
) -> tuple[pa.Table, list[RowGroup]]:
    """What tells the pictures of a Parquet file apart, and the file in parts."""
    try:
        with pq.ParquetFile(table.path, filesystem=table.system) as file:
            _refuse_columns(table.name, file.schema_arrow, with_message)
            keys = _keys(file.read(_present(file, "file", "path", "id")))
            numbers = range(file.num_row_groups)
            sizes = [file.metadata.row_group(number).num_rows for number in numbers]
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise PictureError(f"{table.name} is not Parquet of pictures ({error})") from None
    starts = [0, *accumulate(sizes)]
    return keys, [RowGroup(table, roots, n, starts[n], with_message) for n in numbers]


def _refuse_columns(name: str, schema: pa.Schema, with_message: bool) -> None:
    """Refuse Parquet that does not say where pictures are, what they are called, or whose."""
    columns = set(schema.names)
    if not columns & {"path", "bytes"}:
        raise PictureError(
            f"{name} has neither a column 'path' nor 'bytes': "
            f"its columns are {', '.join(sorted(columns))}"
        )
    if not columns & {"path", "file"}:
        raise PictureError(f"{name} does not name its pictures: add a column 'file'")
    if "bytes" in columns and not _holds_bytes(schema.field("bytes").type):
        raise PictureError(
            f"the column 'bytes' of {name} holds {schema.field('bytes').type}: "
            "it should hold the content of picture files"
        )
    if "id" not in columns and not with_message:
        raise MessageError(f"{name} has no column 'id': name the message with --id or --bits")
    if "id" in columns and with_message:
        raise MessageError(
            f"{name} has a column 'id' with the identifier of each picture: "
            "leave out --id and --bits, or the column"
        )


def _holds_bytes(kind: pa.DataType) -> bool:
    kinds = pa.types
    return kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_null(kind)


def _present(file: Any, *names: str) -> list[str]:
    return [name for name in names if name in file.schema_arrow.names]


def _values(batch: Any) -> list[list[Any]]:
    """Names, identifiers, paths and contents of pictures."""
    contents = batch.column("bytes") if "bytes" in batch.schema.names else pa.nulls(len(batch))
    columns = [*_keys(batch).columns, _text(batch, "path"), contents]
    return [column.to_pylist() for column in columns]


def _keys(table: Any) -> pa.Table:
    """What rows are about: the name of the picture, if any, and the identifier, if any."""
    names = pc.coalesce(_text(table, "file"), _text(table, "path"))
    return pa.table([names, _text(table, "id")], schema=KEYS)


def _text(table: Any, column: str) -> Any:
    """A column as text; empty text counts as missing, and so does a column that is not there."""
    if column not in table.schema.names:
        return pa.nulls(table.num_rows, pa.large_string())
    text = table.column(column).cast(pa.string()).cast(pa.large_string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)


def _refuse_doubles(keys: pa.Table) -> None:
    """Refuse two pictures of one name and identifier, of which the results would hold one."""
    named = keys.filter(pc.is_valid(keys.column("file")))
    counted = named.group_by(KEYS.names, use_threads=False).aggregate([([], "count_all")])
    doubles = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1).to_pylist()
    if doubles:
        file, identifier = doubles[0]["file"], doubles[0]["id"]
        named_so = file if identifier is None else f"{file} for '{identifier}'"
        raise PictureError(f"{named_so} is named twice: name every picture once")
