"""Every reader of the SDK with good inputs for it: each takes one damaged input.

A reader may succeed or raise a ``CoverLockError``; anything else is a finding.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import random
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from coverlock_plugins.service.access import Caller, Callers
from coverlock_sdk import Key
from coverlock_sdk.bundles.bundle import Bundle, Manifest, stamped
from coverlock_sdk.bundles.engines import Engine
from coverlock_sdk.bundles.signing import SIGNATURE, check_signature
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.keys import Keyring
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.verifier.audit_log import AuditLog, check_chain
from tests.fuzz.mutations import ODD_VALUES, damaged_bytes, damaged_json
from tests.toy_bundle import toy_lock, write_toy_bundle

Reader = Callable[[random.Random], None]


SIZE = (64, 64)


def pictures(scratch: Path) -> Reader:
    corpus = picture_files()

    def reader(rng: random.Random) -> None:
        read(damaged_bytes(rng.choice(corpus), rng), 4_000_000).to_bytes(SIZE)

    return reader


def picture_files() -> list[bytes]:
    """Small pictures of every format and of many kinds."""
    colour = np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)
    image = Image.fromarray(colour)
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = Image.fromarray(colour[..., 0].astype(np.uint16) * 257)
    palette, ink = image.quantize(16), image.convert("CMYK")
    modes = [image.convert(mode) for mode in ("RGBA", "L", "LA", "1")]
    encoded: list[tuple[Image.Image, str, dict[str, Any]]] = [
        *((image, kind, {}) for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "AVIF")),
        (image, "JPEG", {"exif": exif, "progressive": True, "subsampling": 2}),
        (image, "WEBP", {"lossless": True, "exif": exif}),
        (image, "TIFF", {"compression": "tiff_lzw"}),
        (image, "TIFF", {"compression": "jpeg"}),
        *(
            (image, kind, {"save_all": True, "append_images": [image.rotate(90)]})
            for kind in ("MPO", "GIF", "PNG", "TIFF")
        ),
        *((picture, "PNG", {}) for picture in (*modes, palette, deep)),
        *((picture, "TIFF", {}) for picture in (*modes, ink, deep)),
        (ink, "JPEG", {}),
        (palette, "GIF", {}),
    ]
    files = []
    for picture, kind, options in encoded:
        file = io.BytesIO()
        try:
            picture.save(file, format=kind, **options)
        except (KeyError, OSError, ValueError):  # this Pillow has no such codec
            continue
        files.append(file.getvalue())
    return files


def odd_pictures(scratch: Path) -> Reader:
    shapes = [(), (0,), (40, 40), (40, 40, 3), (3, 40, 40), (0, 40, 3), (40, 0, 3), (1, 40, 40, 3)]
    shapes += [(40, 40, 0), (40, 40, 5), (0, 3, 40, 40), (33, 33, 1), (2, 2, 2, 2, 2)]
    kinds = ["u1", "u2", "i8", "f4", "f8", "f2", "c8", "b1", "O", "U1", "M8[s]"]
    modes = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA"]
    modes += ["RGBX", "RGBa", "La", "I;16", "I;16B", "I;16L"]
    values = [np.nan, np.inf, -1, 0, 1, 255, 1e30]

    def reader(rng: random.Random) -> None:
        choice = rng.randrange(4)
        if choice == 0:
            array = np.zeros(rng.choice(shapes), dtype=rng.choice(kinds))
            if array.size and array.dtype.kind == "f":
                array.flat[rng.randrange(array.size)] = rng.choice(values)
            source: Any = array
        elif choice == 1:
            sides = rng.choice([0, 1, 31, 32, 40]), rng.choice([0, 1, 32, 50])
            source = Image.new(rng.choice(modes), sides)
            source.info[rng.choice(["transparency", "exif", "icc_profile"])] = rng.choice(
                [b"", b"Exif\0\0II*\0", 0, (1, 2, 3), rng.randbytes(30), None]
            )
        elif choice == 2:
            source = rng.choice(["", "\0", "a\0b.png", "/", "x" * 5000, "/proc/self/mem", "nul"])
        else:
            source = rng.choice([*ODD_VALUES, b"", object(), {1}, 1j, range(3)])
        read(source).to_bytes(SIZE)

    return reader


def manifests(scratch: Path) -> Reader:
    bundle = write_toy_bundle(scratch / "bundle")
    document = json.loads((bundle.path / "manifest.json").read_bytes())
    document["engines"] = [
        asdict(Engine("verify", "fp32", "0" * 64, "tensorrt", "10.13", (1, 8, 32), "sm90"))
    ]
    document["plugin"] = {"distribution": "a", "version": "1", "probe": [0.5, 1]}
    del document["sha256"], document["schema"]

    def reader(rng: random.Random) -> None:
        content = damaged_json(document, rng)
        if rng.random() < 0.9:  # a digest of its own, so that the content is looked at
            with contextlib.suppress(ValueError, RecursionError, TypeError):
                content = stamped(json.loads(content))
        Manifest.from_json(content, Path("manifest.json")).to_json()

    return reader


def bundles(scratch: Path) -> Reader:
    def load(path: Path) -> None:
        Bundle.open(path.parent).engines("verify", "fp32")

    names = ("manifest.json", "verify.onnx")
    paths = [write_toy_bundle(scratch / name).path / name for name in names]
    damaged = [_bytes(path, path.read_bytes(), load) for path in paths]
    return lambda rng: rng.choice(damaged)(rng)


def _bytes(path: Path, good: bytes, load: Callable[[Path], Any]) -> Reader:
    def reader(rng: random.Random) -> None:
        path.write_bytes(damaged_bytes(good, rng))
        load(path)

    return reader


def _json(path: Path, document: Any, load: Callable[[Path], Any]) -> Reader:
    def reader(rng: random.Random) -> None:
        if rng.random() < 0.01:
            load(Path(rng.choice(["a\0b", "/", "", "x" * 5000])))
        path.write_bytes(damaged_json(document, rng))
        path.chmod(0o600)
        load(path)

    return reader


def keys(scratch: Path) -> Reader:
    secret = base64.b64encode(bytes(32)).decode()
    entry = {"id": "a", "created": "2026-01-01T00:00:00Z", "secret": secret}
    document = {"coverlock_keys": 3, "keys": [entry, {**entry, "id": "b"}]}
    return _json(scratch / "key.json", document, Keyring.load)


def tokens(scratch: Path) -> Reader:
    callers = [
        msgspec.structs.asdict(Caller(name, name * 64, ("verify", "detail"))) for name in "ab"
    ]
    return _json(scratch / "tokens.json", {"callers": callers}, Callers.load)


def identifiers(scratch: Path) -> Reader:
    good, lock = "alice\nbob\r\n\n  Zoë \u2028x\n".encode(), toy_lock()
    return _bytes(scratch / "ids.txt", good, lambda path: lock.book(read_identifiers(path)))


def books(scratch: Path) -> Reader:
    lock = toy_lock()
    photo = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    shapes = ((0, 48), (2, 48), (48,), (2, 47), (2, 0), (), (1, 2, 3))
    arrays = [np.zeros(shape) for shape in shapes]
    arrays += [np.full((2, 48), value) for value in (np.nan, 2, -1, 0.5)]
    arrays += [np.zeros((2, 48), kind) for kind in ("O", "U1", "b1", "c8")]

    def value(rng: random.Random, depth: int = 0) -> Any:
        choices: list[Any] = [*ODD_VALUES, *arrays, b"", "alice", "01" * 24, object()]
        kind = rng.randrange(4) if depth < 2 else 0
        if kind == 1:
            return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
        if kind == 2:
            return {rng.choice(["a", "", 1, None]): value(rng, depth + 1) for _ in range(2)}
        return rng.choice(choices)

    def reader(rng: random.Random) -> None:
        messages = value(rng)
        if rng.random() < 0.5:
            lock.book(messages)
        else:
            lock.verify(photo, messages)

    return reader


def registries(scratch: Path) -> Reader:
    good = scratch / "registry.db"
    registry = Registry(good)
    for name in ("alice", "bob", "alice"):
        registry.issue(name, "picture.png")
    key, image_hash = Key(bytes(32), id="test"), toy_lock().hash
    code = np.random.default_rng(0).standard_normal(image_hash.dimensions).astype(np.float32)
    registry.remember("alice/000001", key, image_hash, code)
    content, path = good.read_bytes(), scratch / "damaged.db"
    columns = [
        *(("serials", name) for name in ("serial", "identifier", "number", "created")),
        *(("pictures", name) for name in ("name", "code")),
    ]
    odd = (None, "x", b"\xff", 2**62, 1.5, "\0")

    def reader(rng: random.Random) -> None:
        if rng.random() < 0.5:
            path.write_bytes(damaged_bytes(content, rng))
        else:
            path.write_bytes(content)
            table, column = rng.choice(columns)
            connection = sqlite3.connect(path)
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (rng.choice(odd),))
            connection.commit()
            connection.close()
        damaged = Registry(path)
        toy_lock().book([str(damaged.issued("alice", "picture.png")), *damaged.names()])
        damaged.alike(key, image_hash, code)
        damaged.issue("alice")

    return reader


def jobs(scratch: Path) -> Reader:
    from coverlock_plugins.ray_cluster.results import JOB, Results

    folder = scratch / "results"
    terms = {"bundle": "a" * 64, "message": None, "keys": ["b"], "fpr": 1e-6}
    Results(folder, terms).write(0, [])
    return _json(folder / JOB, terms, lambda _: Results(folder, terms).counts())


def parquet(scratch: Path) -> Reader:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from coverlock_plugins.ray_cluster.inputs import find_shards
    from coverlock_sdk.images.isolation import DecodingPool
    from coverlock_sdk.scaling.job import prepare

    path, decoders = scratch / "rows.parquet", DecodingPool(1, max_pixels=4_000_000)
    [picture, *_] = picture_files()
    columns = {"file": ["a", "b"], "path": ["a.png", None], "bytes": [None, picture]}
    pq.write_table(pa.table(columns), path)
    good = path.read_bytes()
    strange = [
        "s3://b/k?endpoint_override=h",
        "\0",
        "../x",
        "file:///etc/passwd",
        "://",
        "a" * 9000,
    ]

    def reader(rng: random.Random) -> None:
        if rng.random() < 0.7:
            path.write_bytes(damaged_bytes(good, rng))
        else:
            rows = {**columns, rng.choice(["file", "path", "id", "x"]): rng.choices(strange, k=2)}
            pq.write_table(pa.table(rows), path)
        for part in find_shards([str(path)], with_message=True):
            for item in part.items():
                prepare(item, SIZE, decoders)

    return reader


def audit_logs(scratch: Path) -> Reader:
    path = scratch / "audit.jsonl"
    log = AuditLog(path)
    verdict = toy_lock().verify(np.zeros((64, 64, 3), np.uint8), "alice")
    for _ in range(3):
        log.verdict_reached(verdict, "toy", None, "picture.png")

    def load(path: Path) -> None:
        check_chain(path)
        log.require_writable()

    return _bytes(path, path.read_bytes(), load)


def signing_keys(scratch: Path) -> Reader:
    from coverlock_sdk.bundles.signing import generate_signing_key

    folder = write_toy_bundle(scratch / "signed").path
    public = generate_signing_key(scratch / "release.key")
    signature = Bundle.open(folder).sign(scratch / "release.key").read_bytes()
    content, good = (folder / "manifest.json").read_bytes(), public.read_bytes()
    path = scratch / "p"

    def reader(rng: random.Random) -> None:
        path.write_bytes(damaged_bytes(good, rng) if rng.random() < 0.7 else good)
        (folder / SIGNATURE).write_bytes(damaged_bytes(signature, rng))
        check_signature(folder, content, path)

    return reader


def http(scratch: Path) -> Reader:
    from tests.fuzz.http_requests import http_reader

    return http_reader(write_toy_bundle(scratch / "served").path)


READERS: dict[str, Callable[[Path], Reader]] = {
    "pictures": pictures,
    "odd pictures": odd_pictures,
    "manifests": manifests,
    "bundles": bundles,
    "keys": keys,
    "tokens": tokens,
    "identifiers": identifiers,
    "books": books,
    "registries": registries,
    "jobs": jobs,
    "parquet": parquet,
    "audit logs": audit_logs,
    "signing keys": signing_keys,
    "HTTP": http,
}
"""What makes each reader, given a folder for its files."""


def seed_of(reader: str, number: int, seed: int) -> random.Random:
    """The generator of one input, whoever runs it and after whatever."""
    digest = hashlib.sha256(f"{seed}/{reader}/{number}".encode()).digest()
    return random.Random(digest)


def crashing(scratch: Path) -> Reader:
    """A reader with one input of each bad kind, for a test of what finds them."""

    def reader(rng: random.Random) -> None:
        value = rng.random()
        if value == seed_of("crashing", 3, 0).random():
            raise KeyError("foreign")
        if value == seed_of("crashing", 5, 0).random():
            os.abort()

    return reader
