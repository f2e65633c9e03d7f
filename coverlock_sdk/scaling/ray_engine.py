"""Verification on a Ray cluster, with Ray Data.

Pictures are read and resized by tasks, and judged by a pool of actors with one verifier each (and
one GPU each where there are any). Results are Parquet files that the driver alone writes, each
whole or not at all. So a job that is stopped goes on where it was, and what a dying worker leaves
undone or does twice is in the results once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
import ray
import ray.data

from coverlock_sdk.errors import MessageError, PictureError
from coverlock_sdk.pictures import PICTURE_SUFFIXES
from coverlock_sdk.scaling.job import Prepared, VerificationJob, prepare
from coverlock_sdk.scaling.parquet import Results, picture_table, result_table
from coverlock_sdk.sources import find_pictures

Columns = dict[str, Any]
"""A batch as Ray Data hands it over: arrays by column name."""


def verify_on_ray(
    job: VerificationJob, sources: Sequence[str], out: Path, actors: int | None = None
) -> dict[str, int]:
    """Verify what ``sources`` name and write the results to the folder ``out``.

    A source is a picture or a folder of them, on a shared disk or in an object store
    (``s3://bucket/folder``), or Parquet (``.parquet``, or a folder of such files) with a column
    ``path`` or ``bytes``, and optionally ``file``, a name for the picture, and ``id``, the
    identifier to look for in it. What ``out`` holds already is not done again, except for errors.
    Returns how many pictures of each status ``out`` holds in the end.
    """
    job.open().close()  # what is wrong with the job itself is said once, and here
    bundle, examiner = job.checked()
    results = Results(out, job.terms(bundle, examiner))
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    pictures = _pictures(sources, with_message=job.message is not None)
    if done := results.done():
        pictures = pictures.map_batches(
            _remaining, fn_kwargs={"done": done}, batch_format="pyarrow"
        )
    cluster: Any = ray  # whose functions are not typed
    resources: dict[str, float] = cluster.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    actors = actors or gpus or max(1, int(resources.get("CPU", 1)) - 1)
    judged = pictures.map_batches(
        _read,
        fn_kwargs={"size": bundle.manifest.size},
        batch_size=job.max_batch,
        batch_format="pyarrow",
    ).map_batches(
        _Judge,
        fn_constructor_args=(replace(job, threads=job.threads or 1),),
        batch_size=job.max_batch,
        num_gpus=1 if gpus else 0,
        compute=ray.data.ActorPoolStrategy(size=actors),
    )
    with results:
        for batch in judged.iter_batches(batch_size=None, batch_format="pyarrow"):
            results.add(batch.to_pylist())
    return results.counts()


def _pictures(sources: Sequence[str], with_message: bool) -> Any:
    """One row for each picture: its name, where it is or what is in it, and its identifier."""
    parts = [_source(source, with_message) for source in sources]
    return parts[0].union(*parts[1:]) if len(parts) > 1 else parts[0]


def _source(source: str, with_message: bool) -> Any:
    if source.endswith(".parquet") or _is_parquet_folder(source):
        table = ray.data.read_parquet(source)
        columns = set(table.schema().names)
        if not columns & {"path", "bytes"}:
            raise PictureError(
                f"{source} has neither a column 'path' nor 'bytes': "
                f"its columns are {', '.join(sorted(columns))}"
            )
        if not with_message and "id" not in columns:
            raise MessageError(f"{source} has no column 'id': name the message by --id or --bits")
        return table.map_batches(_as_pictures, batch_format="pyarrow")
    if not with_message:
        raise MessageError("name the message by either --id or --bits")
    if "://" in source:
        names = _listed(source)
    else:
        names = [str(picture.path.resolve()) for picture in find_pictures([source])]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise PictureError(f"{repeated[0]} is named twice")
    return ray.data.from_arrow(picture_table({"file": name, "path": name} for name in names))


def _is_parquet_folder(source: str) -> bool:
    folder = Path(source)
    return folder.is_dir() and any(folder.glob("*.parquet"))


def _listed(uri: str) -> list[str]:
    """The pictures below a folder of an object store, as URIs that can be read anywhere."""
    try:
        system, folder = pyarrow.fs.FileSystem.from_uri(uri)
        listing = system.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
    except (OSError, ValueError) as error:
        raise PictureError(f"{uri} cannot be listed ({error})") from None
    scheme, options = uri.partition("://")[0], "".join(uri.partition("?")[1:])
    found = sorted(
        f"{scheme}://{info.path}{options}"
        for info in listing
        if info.is_file and Path(info.path).suffix.lower() in PICTURE_SUFFIXES
    )
    if not found:
        raise PictureError(f"there are no pictures below {uri}")
    return found


def _as_pictures(table: Any) -> Any:
    """The columns of a vendor's Parquet file as ours."""
    rows = table.to_pylist()
    if any(row.get("file", row.get("path")) is None for row in rows):
        raise PictureError("a picture without a path needs a name: add a column 'file'")
    return picture_table(
        {
            "file": str(row.get("file", row.get("path"))),
            "path": row.get("path"),
            "bytes": row.get("bytes"),
            "id": row.get("id"),
        }
        for row in rows
    )


def _remaining(table: Any, done: set[tuple[str, str | None]]) -> Any:
    """What the results do not hold yet."""
    keys = zip(*(table.column(name).to_pylist() for name in ("file", "id")), strict=True)
    return table.filter([key not in done for key in keys])


def _read(table: Any, size: tuple[int, int]) -> Columns:
    """Pictures at the size of the graph; one that cannot be read keeps the reason instead."""
    rows = table.to_pylist()
    prepared = [_prepare(row["file"], row["path"], row["bytes"], size) for row in rows]
    blank = np.zeros((*size, 3), dtype=np.uint8)
    return {
        "file": np.array([row["file"] for row in rows], dtype=object),
        "id": np.array([row["id"] or "" for row in rows], dtype=object),
        "pixels": np.stack([blank if p.pixels is None else p.pixels for p in prepared]),
        "error": np.array([p.error or "" for p in prepared], dtype=object),
    }


def _prepare(file: str, path: str | None, content: bytes | None, size: tuple[int, int]) -> Prepared:
    if content is not None:
        return prepare(file, size, content)
    if path is None:
        return Prepared(file, None, f"{file} has neither a path nor bytes")
    if "://" not in path:
        return replace(prepare(path, size), file=file)
    try:
        system, name = pyarrow.fs.FileSystem.from_uri(path)
        with system.open_input_stream(name) as stream:
            content = stream.read()
    except (OSError, ValueError) as error:
        return Prepared(file, None, f"{path} cannot be read ({error})")
    return prepare(file, size, content)


class _Judge:
    """An actor: one verifier, opened once."""

    def __init__(self, job: VerificationJob) -> None:
        self.job = job
        self.verifier = job.open()

    def __call__(self, batch: Columns) -> Any:
        rows = zip(batch["file"], batch["pixels"], batch["error"], batch["id"], strict=True)
        pictures, messages = [], []
        for file, pixels, error, identifier in rows:
            message = self.job.message if self.job.message is not None else identifier
            if not error and message == "":
                error = "there is no identifier to look for: give --id, or a column 'id'"
            pictures.append(Prepared(str(file), None if error else pixels, error or None))
            messages.append(message)
        judged = self.job.judge(self.verifier, pictures, messages)
        return result_table(
            {**row, "id": identifier or None}
            for row, identifier in zip(judged, batch["id"], strict=True)
        )
