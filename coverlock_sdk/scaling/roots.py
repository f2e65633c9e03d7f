"""Where the rows of a job's Parquet may name pictures: whoever writes rows does not choose hosts.

A job reads pictures below its roots only: the folder of each Parquet source, and what the job's
owner names besides. A row cannot leave a root, and cannot carry options of a filesystem, which name
servers to call.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

from coverlock_sdk.errors import PictureError

_LOCAL = "file://"


class Root(NamedTuple):
    """A folder, on a filesystem of pyarrow, or (None) of this machine."""

    uri: str
    """What paths of rows begin with; empty for a folder of this machine."""
    system: Any
    path: str


def chosen_root(source: str) -> Root:
    """The root that a job's owner names: a folder, or a URI, which may have options."""
    if "://" in source and not source.startswith(_LOCAL):
        try:
            system, path = resolved(source)
        except (OSError, pa.ArrowException) as error:
            raise PictureError(f"{source} is not a place for pictures ({error})") from None
        return Root(source.partition("?")[0].rstrip("/"), system, path.rstrip("/"))
    folder = Path(unquote(source.removeprefix(_LOCAL)) if "://" in source else source)
    if not folder.is_dir():
        raise PictureError(f"{source} is not a folder: name one that pictures are below")
    return Root("", None, folder.resolve().as_posix())


def resolved(uri: str) -> tuple[Any, str]:
    """The filesystem and the path that a URI names; what it cannot hold, like spaces, is quoted."""
    return pyarrow.fs.FileSystem.from_uri(quote(uri, safe="%:/?#[]@!$&'()*+,;="))


def load_below(roots: Sequence[Root], name: str, path: str) -> str | bytes:
    """The picture of a row: its path where that is enough, or else its content.

    Everything that is not below a root is refused in the same words, whether it exists or not.
    """
    for root in roots:
        if root.uri:
            below = _rest(root, path)
            if below is not None:
                return _content(root, below, name)
        elif (file := _local(root, path)) is not None:
            return file
    raise PictureError(
        f"the path of {name} is not below the folder of its Parquet, or is more than a path: "
        "name other folders that this job may read with --root"
    )


def _local(root: Root, path: str) -> str | None:
    """The file of this machine that ``path`` names, if it is below the root, links followed."""
    if "://" in path:
        if not path.startswith(_LOCAL + "/") or "?" in path or "#" in path:
            return None
        path = unquote(path.removeprefix(_LOCAL))
    try:
        file = (Path(root.path) / path).resolve()
        inside = file.is_relative_to(root.path)
    except (OSError, RuntimeError, ValueError):  # loops of links, names with NUL
        return None
    return file.as_posix() if inside else None


def _rest(root: Root, path: str) -> str | None:
    """What follows the root in a URI; None if that is not a plain path below it."""
    if not path.startswith(root.uri + "/") or "?" in path or "#" in path:
        return None
    rest = unquote(path.removeprefix(root.uri + "/"))
    parts = PurePosixPath(rest).parts
    plain = parts and "/".join(parts) == rest and not {"..", "."} & set(parts) and "\0" not in rest
    return rest if plain else None


def _content(root: Root, rest: str, name: str) -> bytes:
    try:
        with root.system.open_input_stream(f"{root.path}/{rest}") as stream:
            return stream.read()
    except (OSError, pa.ArrowException):
        raise PictureError(f"{name} cannot be read from where its row says it is") from None
