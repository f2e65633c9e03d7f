"""What there is to verify on a cluster: found by one process, and read by all.

Sources are looked through once and cut into shards, which are small enough to be sent to whoever
reads the pictures: some names, or some rows of a Parquet file.

The rows of Parquet may come from strangers, who must not choose what a job reads. A row names a
picture below the folder of its source, or below a folder that the job's owner names. It cannot
leave that folder, and cannot carry options of a filesystem, which name servers to call.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem

from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.images.folders import find_pictures, is_hidden, is_picture
from coverlock_sdk.scaling.job import Item

PICTURES_PER_SHARD = 256
ROWS_AT_ONCE, NAMES_AT_ONCE = 16, 4096
"""Of a Parquet file, which may hold pictures of many megabytes, or only their names."""
PAUSES = (0.5, 2.0, 8.0)
"""Seconds before a file of an object store is asked for again."""

LOCAL = "file://"

Answer = TypeVar("Answer")


class Place(NamedTuple):
    """A file or a folder by name, on a filesystem of pyarrow, or (None) of this machine."""

    name: str
    """A URI; a path for a file of this machine, and nothing for a folder of it."""
    system: Any
    path: str

    def load(self) -> str | bytes:
        """The path where that is enough, or else the content."""
        return self.path if self.system is None else content_of(self.system, self.path)


@dataclass(frozen=True)
class Listed:
    """Picture files."""

    places: Sequence[Place]

    @property
    def name(self) -> str:
        """The names of the files."""
        return "\n".join(place.name for place in self.places)

    def items(self) -> Iterator[Item]:
        """One for each file."""
        return (Item(place.name, None, place.load) for place in self.places)


@dataclass(frozen=True)
class Rows:
    """Some rows of one row group of a Parquet file."""

    place: Place
    roots: tuple[Place, ...]
    """The folders below which its rows may name pictures."""
    group: int
    skipped: int
    """Rows of the group before these."""
    count: int
    first: int
    """The position of the first row in the file."""
    with_message: bool

    @property
    def name(self) -> str:
        """The file and the rows of it."""
        return f"{self.place.name} rows {self.first} to {self.first + self.count}"

    def items(self) -> Iterator[Item]:
        """One for each row."""
        row = self.first
        try:
            for values in self._values():
                row += 1
                yield self._item(row, *values)
        except (OSError, pa.ArrowException, UnicodeDecodeError):
            name = f"what follows row {row} of {self.place.name}"
            yield Item(name, None, partial(_refuse, f"{name} cannot be read: get the file again"))

    def _values(self) -> Iterator[tuple[Any, ...]]:
        """Name, identifier, path and content of each row; rows before are skipped in batches."""
        with pq.ParquetFile(self.place.path, filesystem=self.place.system) as file:
            names = file.schema_arrow.names
            columns = [name for name in ("file", "path", "id", "bytes") if name in names]
            at_once = ROWS_AT_ONCE if "bytes" in columns else NAMES_AT_ONCE
            skip, left = self.skipped, self.count
            for batch in file.iter_batches(at_once, [self.group], columns):
                before, skip = min(skip, len(batch)), max(0, skip - len(batch))
                batch = batch.slice(before, left)
                left -= len(batch)
                contents = batch.column("bytes") if "bytes" in columns else pa.nulls(len(batch))
                path = _text(batch, "path")
                name = pc.coalesce(_text(batch, "file"), path)
                found = (name, _text(batch, "id"), path, contents)
                yield from zip(*(column.to_pylist() for column in found), strict=True)
                if not left:
                    return

    def _item(
        self, row: int, name: str | None, id: str | None, path: str | None, content: bytes | None
    ) -> Item:
        if name is None:
            name = f"row {row} of {self.place.name}"
            problem = f"{name} has no name: fill the column 'file'"
        elif id is None and not self.with_message:
            problem = f"there is no identifier to look for in {name}: fill the column 'id'"
        elif content is not None:
            return Item(name, id, partial(bytes, content))
        elif path is not None:
            return Item(name, id, partial(load_below, self.roots, name, path))
        else:
            problem = f"{name} has neither a path nor bytes"
        return Item(name, id, partial(_refuse, problem))


Shard = Listed | Rows
"""Pictures that one process verifies, and whose results are one file; no other has its name."""


def find_shards(
    sources: Iterable[str], with_message: bool, roots: Iterable[str] = ()
) -> list[Shard]:
    """What ``sources`` name, in shards that come in the same order every time.

    A source is a picture or a folder of them, on a disk or in an object store, or Parquet, or a
    folder of it. Rows of Parquet name pictures below the folder of their source, or below
    ``roots``. ``with_message`` says that there is one message for all pictures. Otherwise each
    needs an identifier of its own, which only Parquet can give it.
    """
    chosen = tuple(map(chosen_root, roots))
    tables: list[tuple[Place, tuple[Place, ...]]] = []
    pictures: list[Place] = []
    for source in sources:
        folder, more_tables, more_pictures = _found(source)
        tables += [(table, (_root_of(table, folder), *chosen)) for table in more_tables]
        pictures += more_pictures
    if pictures and not with_message:
        raise MessageError("name the identifier that these pictures carry with --id")
    shards: list[Shard] = [
        Listed(pictures[start : start + PICTURES_PER_SHARD])
        for start in range(0, len(pictures), PICTURES_PER_SHARD)
    ]
    with ThreadPoolExecutor() as pool:
        for rows in pool.map(lambda table: _rows(table[0], table[1], with_message), tables):
            shards += rows
    if not shards:
        raise PictureError("there is nothing to verify: the Parquet files have no rows")
    return shards


def _root_of(table: Place, folder: str | None) -> Place:
    """Where the rows of a Parquet file may name pictures: the folder of its source, or its own."""
    path = folder or posixpath.dirname(table.path)
    if table.system is None:
        return Place("", None, path)
    return Place(f"{table.name.removesuffix(table.path)}{path}", table.system, path)


def _found(source: str) -> tuple[str | None, list[Place], list[Place]]:
    """The folder that a source is, if it is one, and its Parquet files and its pictures.

    Of a folder it is one or the other: Parquet that lies in it may well describe pictures further
    down, and Parquet further down may well be the results on the pictures.
    """
    folder, places = _listed_remotely(source) if "://" in source else _listed_here(source)
    tables = [place for place in places if place.path.endswith(".parquet")]
    if folder is None:
        return None, tables, [place for place in places if not place.path.endswith(".parquet")]
    pictures = [place for place in places if is_picture(PurePath(place.path))]
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
        is_file = system.get_file_info(path).is_file
        listing = [] if is_file else system.get_file_info(FileSelector(path, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise PictureError(f"{uri} cannot be listed ({error})") from None
    folder = path.rstrip("/")
    files = sorted(info.path for info in listing if info.is_file)
    shown = [file for file in files if not is_hidden(PurePath(file[len(folder) :]))]
    scheme = uri.partition("://")[0]
    places = [Place(f"{scheme}://{file}", system, file) for file in ([path] if is_file else shown)]
    return None if is_file else folder, places


def content_of(system: Any, path: str) -> bytes:
    """The content of a file of an object store."""

    def read() -> bytes:
        with system.open_input_stream(path) as stream:
            content: bytes = stream.read()
            return content

    return asked_again(read)


def asked_again(ask: Callable[[], Answer]) -> Answer:
    """What ``ask`` returns, asked again where an object store fails for a moment."""
    for pause in PAUSES:
        try:
            return ask()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            time.sleep(pause)
    return ask()


def _refuse(reason: str) -> NoReturn:
    raise PictureError(reason)


def _rows(place: Place, roots: tuple[Place, ...], with_message: bool) -> list[Rows]:
    """The shards of a Parquet file, after a look at its columns."""
    try:
        with pq.ParquetFile(place.path, filesystem=place.system) as file:
            _refuse_columns(place.name, file.schema_arrow, with_message)
            groups = range(file.num_row_groups)
            sizes = [file.metadata.row_group(group).num_rows for group in groups]
            has_bytes = "bytes" in file.schema_arrow.names
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise PictureError(f"{place.name} is not Parquet of pictures ({error})") from None
    shards: list[Rows] = []
    first = 0
    for group, size in enumerate(sizes):
        # To skip rows with bytes is to read them.
        most = size if has_bytes else PICTURES_PER_SHARD
        for skipped in range(0, size, most or 1):
            count = min(most, size - skipped)
            shards.append(Rows(place, roots, group, skipped, count, first + skipped, with_message))
        first += size
    return shards


def _refuse_columns(name: str, schema: pa.Schema, with_message: bool) -> None:
    """Refuse Parquet that does not say where pictures are, what they are called, or whose."""
    types, columns = pa.types, set(schema.names)
    if not columns & {"path", "bytes"}:
        raise PictureError(
            f"{name} has neither a column 'path' nor 'bytes': "
            f"its columns are {', '.join(sorted(columns))}"
        )
    if not columns & {"path", "file"}:
        raise PictureError(f"{name} does not name its pictures: add a column 'file'")
    content = schema.field("bytes").type if "bytes" in columns else pa.binary()
    if not any(kind(content) for kind in (types.is_binary, types.is_large_binary, types.is_null)):
        raise PictureError(
            f"the column 'bytes' of {name} holds {content}: "
            "it should hold the content of picture files"
        )
    for text in sorted(columns & {"file", "path", "id"}):
        if types.is_nested(schema.field(text).type):
            raise PictureError(f"{name} is not Parquet of pictures (its '{text}' is not text)")
    if "id" not in columns and not with_message:
        raise MessageError(f"{name} has no column 'id': name the identifier with --id")
    if "id" in columns and with_message:
        raise MessageError(
            f"{name} has a column 'id' with the identifier of each picture: "
            "leave out --id, or the column"
        )


def _text(table: Any, column: str) -> Any:
    """A column as text; empty text counts as missing, and so does a column that is not there."""
    if column not in table.schema.names:
        return pa.nulls(table.num_rows, pa.large_string())
    text = table.column(column).cast(pa.string()).cast(pa.large_string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)


def chosen_root(source: str) -> Place:
    """The root that a job's owner names: a folder, or a URI, which may have options."""
    folder = local_path(source)
    if folder is None:
        try:
            system, path = resolved(source)
        except (OSError, pa.ArrowException) as error:
            raise PictureError(f"{source} is not a place for pictures ({error})") from None
        return Place(source.partition("?")[0].rstrip("/"), system, path.rstrip("/"))
    if not Path(folder).is_dir():
        raise PictureError(f"{source} is not a folder: name one that pictures are below")
    return Place("", None, Path(folder).resolve().as_posix())


def local_path(source: str) -> str | None:
    """The path that a path or ``file://`` names; None for any other URI."""
    if source.startswith(LOCAL):
        return unquote(source.removeprefix(LOCAL))
    return None if "://" in source else source


def resolved(uri: str) -> tuple[Any, str]:
    """The filesystem and the path that a URI names; what it cannot hold, like spaces, is quoted."""
    return FileSystem.from_uri(quote(uri, safe="%:/?#[]@!$&'()*+,;="))


def load_below(roots: Sequence[Place], name: str, path: str) -> str | bytes:
    """The picture of a row: its path where that is enough, or else its content.

    Everything that is not below a root is refused in the same words, whether it exists or not.
    """
    for root in roots:
        if root.system is None:
            if (file := _local(root, path)) is not None:
                return file
        elif (rest := _rest(root, path)) is not None:
            try:
                return content_of(root.system, f"{root.path}/{rest}")
            except (OSError, pa.ArrowException):
                problem = f"{name} cannot be read from where its row says it is"
                raise PictureError(problem) from None
    raise PictureError(
        f"the path of {name} is not below the folder of its Parquet, or is more than a path: "
        "name other folders that this job may read with --root"
    )


def _local(root: Place, path: str) -> str | None:
    """The file of this machine that ``path`` names, if it is below the root, links followed."""
    if "://" in path:
        if not path.startswith(LOCAL + "/") or "?" in path or "#" in path:
            return None
        path = unquote(path.removeprefix(LOCAL))
    try:
        file = (Path(root.path) / path).resolve()
        inside = file.is_relative_to(root.path)
    except (OSError, RuntimeError, ValueError):  # loops of links, names with NUL
        return None
    return file.as_posix() if inside else None


def _rest(root: Place, path: str) -> str | None:
    """What follows the root in a URI; None if that is not a plain path below it."""
    if not path.startswith(root.name + "/") or "?" in path or "#" in path:
        return None
    rest = unquote(path.removeprefix(root.name + "/"))
    parts = PurePosixPath(rest).parts
    plain = parts and "/".join(parts) == rest and not {"..", "."} & set(parts) and "\0" not in rest
    return rest if plain else None
