"""The bundle: a directory that holds everything a verifier needs, and no secret.

``manifest.json`` says what the graphs beside it are and carries their SHA-256 and its own. A file
that is not listed is never read, and one whose digest differs is refused. Digests beside the files
stop accidents only; against tampering the manifest is signed (see ``signing``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from coverlock_sdk.bundles.host_plugin import HostPlugin
from coverlock_sdk.bundles.signatures import SIGNATURES, check_signature
from coverlock_sdk.bundles.trust import ANYONE, Trust, warn_untrusted
from coverlock_sdk.documents import Document, DocumentError
from coverlock_sdk.errors import BundleError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.images.picture import MAX_SIDE
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.lock import MOST_BITS

SCHEMA = 3
"""Version of the manifest. Others are refused: newer ones may mean other things, and older ones do
not carry their own digest."""

MANIFEST = "manifest.json"

INPUT = "images"
OUTPUTS = ("decoder_logits", "descriptions")
"""Names of the tensors of ``verify`` graphs: from pictures uint8 (N, H, W, 3) to payload logits and
what the hash keeps of each picture."""

PAYLOADS = "payloads"
"""The second input of ``embed`` graphs, uint8 bits (N, bits); their output is ``residuals``."""

PathLike = str | os.PathLike[str]

LONGEST_PAYLOAD = 65_536
MOST_BANDS, LARGEST_BAND = 64, 65_536

LONGEST_VERSION = 100

_OWN_DIGEST = "sha256"
_BLANK = "0" * 64
"""The placeholder for the manifest's digest while it is computed."""


@dataclass(frozen=True)
class Manifest:
    """What a bundle says about itself."""

    watermark: str
    payload_bits: int
    calibration: Calibration
    """How far the decoder's logits can be trusted."""
    size: tuple[int, int] | None
    """Height and width at which the watermark sees pictures; None if it takes them as they are."""
    hash: str
    hash_size: tuple[int, int]
    """What the graph resamples them to for the hash."""
    bands: tuple[int, ...]
    """Logits of each band of the hash."""
    hash_calibration: Calibration
    fpr: float
    opset: int
    hash_digest: str | None = None
    """SHA-256 of the weights of a hash that registers, which the host computes; None for others."""
    key_fingerprint: str | None = None
    """The key that pictures are marked with, where the export was told; never the key itself."""
    graphs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """File names by graph ("verify" or "hash", "embed") and precision ("fp32", ...)."""
    engines: tuple[Mapping[str, Any], ...] = ()
    """Compiled graphs; each entry names its ``file`` and says what it was compiled for."""
    parity: Mapping[str, Any] = field(default_factory=dict)
    """How far each precision agrees with the SDK on real photos, as measured at export."""
    version: str | None = None
    """What its makers call this bundle, to tell it from earlier ones."""
    plugin: HostPlugin | None = None
    """Who decodes on the host, where the watermark is not a network."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """Versions and time of the export."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file of the bundle besides the manifest and its signatures."""

    @property
    def graph_size(self) -> tuple[int, int]:
        """Height and width of the pictures that the graphs take."""
        return self.size or self.hash_size

    @property
    def message_bits(self) -> int:
        """Length of a message."""
        return min(self.payload_bits, MOST_BITS)

    @property
    def description_shape(self) -> tuple[int, ...]:
        """What the hash keeps of one picture: its thumbnail if it registers, else its logits."""
        return (sum(self.bands),) if self.hash_digest is None else (3, *self.hash_size)

    def to_json(self) -> bytes:
        """The manifest as it is stored."""
        document = {
            "watermark": {
                "name": self.watermark,
                "bits": self.payload_bits,
                "calibration": asdict(self.calibration),
            },
            "hash": {
                "name": self.hash,
                "size": list(self.hash_size),
                "bands": list(self.bands),
                "calibration": asdict(self.hash_calibration),
                "digest": self.hash_digest,
            },
            "preprocessing": {
                "input": "uint8, (N, height, width, 3), RGB",
                "size": None if self.size is None else list(self.size),
                "scale": "divided by 255",
                "resampling": "antialiased triangle filter as two matrix products",
            },
            "message_bits": self.message_bits,
            "fpr": self.fpr,
            "key_fingerprint": self.key_fingerprint,
            "opset": self.opset,
            "graphs": {name: dict(files) for name, files in self.graphs.items()},
            "engines": [dict(engine) for engine in self.engines],
            "version": self.version,
            "plugin": None if self.plugin is None else asdict(self.plugin),
            "parity": self.parity,
            "made": self.made,
            "files": dict(sorted(self.files.items())),
        }
        return stamped(document)

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> Manifest:
        """Read a manifest; ``path`` is for the error messages."""
        try:
            document = Document.parsed(content)
            schema = document.integer("schema")
        except DocumentError:
            raise BundleError(f"{path} is not the manifest of a bundle: export it again") from None
        if schema > SCHEMA:
            raise BundleError(
                f"{path} was written by a newer version (schema {schema}, this one reads "
                f"{SCHEMA}): update coverlock-sdk"
            )
        if schema < SCHEMA:
            raise BundleError(
                f"{path} was written by an older version (schema {schema}, this one reads "
                f"{SCHEMA}): export the bundle again"
            )
        if not _is_whole(content, document.values.get(_OWN_DIGEST)):
            raise BundleError(
                f"{path} is not as it was written (its SHA-256 differs): "
                "copy or export the bundle again"
            )
        try:
            return cls._parsed(document)
        except (BundleError, DocumentError) as error:
            raise BundleError(
                f"{path} is incomplete or damaged ({error}): export the bundle again"
            ) from None

    @classmethod
    def _parsed(cls, document: Document) -> Manifest:
        watermark, image_hash = document.document("watermark"), document.document("hash")
        preprocessing, graphs = document.document("preprocessing"), document.document("graphs")
        plugin = document.document("plugin") if "plugin" in document else None
        return cls(
            watermark=watermark.text("name"),
            payload_bits=watermark.integer("bits", 1, LONGEST_PAYLOAD),
            calibration=_calibration(watermark.document("calibration")),
            size=_size(preprocessing) if "size" in preprocessing else None,
            hash=image_hash.text("name"),
            hash_size=_size(image_hash),
            bands=_bands(image_hash),
            hash_calibration=_calibration(image_hash.document("calibration")),
            hash_digest=image_hash.text("digest") if "digest" in image_hash else None,
            fpr=document.number("fpr", 0, 1),
            opset=document.integer("opset"),
            key_fingerprint=(
                document.text("key_fingerprint") if "key_fingerprint" in document else None
            ),
            graphs={
                name: {precision: _plain(file) for precision, file in graphs.mapping(name).items()}
                for name in graphs.values
            },
            engines=tuple(
                {**engine.values, "file": _plain(engine.text("file"))}
                for engine in document.documents("engines")
            ),
            version=document.text("version", LONGEST_VERSION) if "version" in document else None,
            plugin=HostPlugin.parsed(plugin) if plugin else None,
            parity=document.document("parity").values,
            made=document.document("made").values,
            files={_plain(name): digest for name, digest in document.mapping("files").items()},
        )


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk whose manifest was read and whose files were checked."""

    path: Path
    manifest: Manifest
    signed: bool = False
    """Whether the manifest carries a signature of the key that the opener trusts."""

    @classmethod
    def open(cls, path: PathLike, trust: Any = None) -> Bundle:
        """Read and check the bundle in ``path``.

        With ``trust`` a bundle is refused unless it is signed by the holder of that key: a public
        key, the path of its file, a trust file, or several of these. "any" is everybody.
        """
        folder = Path(path)
        content = _read(folder / MANIFEST, f"{folder} is not a bundle: it has no {MANIFEST}")
        signed = trust is not None and trust != ANYONE
        if signed:
            check_signature(folder, content, Trust.of(trust))
        bundle = cls(folder, Manifest.from_json(content, folder / MANIFEST), signed)
        for name, digest in bundle.manifest.files.items():
            if _digest_of_file(bundle._listed(name)) != digest:
                raise _altered(folder, name)
        return bundle

    @classmethod
    def given(cls, bundle: PathLike | Bundle, trust: Any) -> Bundle:
        """What a caller gives to be opened, who is warned of a path without ``trust``.

        A bundle that is open may have been opened with another key, and is checked again.
        """
        if isinstance(bundle, Bundle):
            return bundle if trust is None else cls.open(bundle.path, trust)
        if trust is None:
            warn_untrusted(bundle)
        return cls.open(bundle, trust)

    @property
    def graph(self) -> str:
        """The graph that verification runs; without a decoder in it where a plugin decodes."""
        return "verify" if self.manifest.plugin is None else "hash"

    def file(self, graph: str = "verify", precision: str = "fp32") -> str:
        """Name of the file that holds ``graph`` in ``precision``."""
        precisions = self.manifest.graphs.get(graph)
        if not precisions and self.manifest.plugin is not None:
            raise BundleError(
                f"{self.path} has no graph '{graph}': its watermark is not a network and is "
                "decoded on the host"
            )
        if not precisions:
            raise BundleError(f"{self.path} has no graph '{graph}': export it again")
        if precision not in precisions:
            there = ", ".join(precisions)
            raise BundleError(f"{self.path} has '{graph}' in {there}, but not in {precision}")
        return precisions[precision]

    def read(self, name: str) -> bytes:
        """The content of a listed file; what is returned is what was checked."""
        content = _read(self._listed(name), f"{self.path} lacks the file {name}")
        if hashlib.sha256(content).hexdigest() != self.manifest.files[name]:
            raise _altered(self.path, name)
        return content

    def with_engine(self, content: bytes, entry: Mapping[str, Any]) -> Bundle:
        """Put a compiled engine into the bundle; ``entry`` names its ``file`` and its purpose.

        The signature goes, because the manifest is no longer what was signed.
        """
        name = _plain(entry["file"])
        manifest = replace(
            self.manifest,
            engines=(*(e for e in self.manifest.engines if e["file"] != name), dict(entry)),
            files={**self.manifest.files, name: hashlib.sha256(content).hexdigest()},
        )
        with _explained(self.path):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / name, content)
            for signature in SIGNATURES:
                (self.path / signature).unlink(missing_ok=True)
            write_atomically(self.path / MANIFEST, manifest.to_json())
        return replace(self, manifest=manifest, signed=False)

    def _listed(self, name: str) -> Path:
        if name not in self.manifest.files:
            raise BundleError(f"the manifest of {self.path} does not list the file {name}")
        path = self.path / name
        if not path.is_file():
            raise BundleError(f"{self.path} lacks the file {name}: copy or export it again")
        return path


@contextlib.contextmanager
def building(out: Path) -> Iterator[Path]:
    """A folder to build a bundle in; it becomes ``out`` when all went well, and goes otherwise."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BundleError(f"{out} exists: choose another folder for the bundle, or remove it")
    with _explained(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        yield folder
        with _explained(out):
            folder.chmod(0o777 & ~_umask())
            folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    """What this process takes from the rights of its files; it can only be seen by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def seal(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of the files in ``folder``, with the digest of each."""
    files = {
        path.relative_to(folder).as_posix(): _digest_of_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MANIFEST, *SIGNATURES)
    }
    with _explained(folder):
        write_atomically(folder / MANIFEST, replace(manifest, files=files).to_json())


def stamped(document: Mapping[str, Any]) -> bytes:
    """``document`` as a manifest of this schema that carries its own SHA-256.

    The digest is that of the very bytes that are written, with zeros in its own place.
    """
    whole = {"schema": SCHEMA, _OWN_DIGEST: _BLANK, **document}
    content = json.dumps(whole, indent=2).encode() + b"\n"
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(_BLANK.encode(), digest.encode(), 1)


def _is_whole(content: bytes, digest: Any) -> bool:
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        return False
    blanked = content.replace(digest.encode(), _BLANK.encode(), 1)
    return hashlib.sha256(blanked).hexdigest() == digest


def _calibration(document: Document) -> Calibration:
    return Calibration(document.number("scale", 0, 1e12), document.number("power", 0, 1e3))


def _size(document: Document) -> tuple[int, int]:
    height, width = document.integers("size", 2, 1, MAX_SIDE)
    return height, width


def _bands(document: Document) -> tuple[int, ...]:
    count = len(document.entries("bands"))
    if not 1 <= count <= MOST_BANDS:
        raise DocumentError(f"'hash.bands' has {count} entries, not 1 to {MOST_BANDS}")
    return document.integers("bands", count, 1, LARGEST_BAND)


def _plain(name: str) -> str:
    """A file name that stays inside the bundle."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise BundleError(f"'{name}' is not the name of a file inside a bundle")
    return name


def _digest_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _read(path: Path, missing: str) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise BundleError(missing) from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read ({error.strerror or error})") from None


def _altered(folder: Path, name: str) -> BundleError:
    return BundleError(
        f"the file {name} of {folder} is not the one that was exported (its SHA-256 differs): "
        "copy or export the bundle again"
    )


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BundleError(f"{path} cannot be written ({error.strerror or error})") from None
