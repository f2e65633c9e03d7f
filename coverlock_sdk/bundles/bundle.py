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
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from coverlock_sdk.bundles.engines import Engine
from coverlock_sdk.bundles.signing import ANYONE, SIGNATURE, check_signature, signature_of
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.errors import BundleError, UntrustedBundleWarning
from coverlock_sdk.files import file_digest, write_atomically
from coverlock_sdk.images.picture import MAX_SIDE

SCHEMA = 4
"""Version of the manifest; no other is read."""

MANIFEST = "manifest.json"

INPUT = "images"
OUTPUTS = ("decoder_logits", "descriptions")
"""Names of the tensors of ``verify`` graphs: from pictures uint8 (N, H, W, 3) to payload logits and
what the hash keeps of each picture."""

PAYLOADS = "payloads"
"""The second input of ``embed`` graphs, uint8 bits (N, bits); their output is ``residuals``."""

PathLike = str | os.PathLike[str]

LONGEST_VERSION = 100

_BLANK = "0" * 64
"""The placeholder for the manifest's digest while it is computed."""

_Side = Annotated[int, Meta(ge=1, le=MAX_SIDE)]
_Size = tuple[_Side, _Side]
_Band = Annotated[int, Meta(ge=1, le=65_536)]


@dataclass(frozen=True)
class HostPlugin:
    """Which plugin decodes on the host, where the watermark is not a network."""

    distribution: str
    version: str
    probe: tuple[float, ...]
    """What it decoded from the test picture at export."""


@dataclass(frozen=True)
class Manifest:
    """What a bundle says about itself. The file holds these fields, ``schema`` and ``sha256``."""

    watermark: str
    payload_bits: Annotated[int, Meta(ge=1, le=65_536)]
    calibration: Calibration
    """How far the decoder's logits can be trusted."""
    size: _Size | None
    """Height and width at which the watermark sees pictures; None if it takes them as they are."""
    hash: str
    hash_size: _Size
    """What the graph resamples them to for the hash."""
    bands: Annotated[tuple[_Band, ...], Meta(min_length=1, max_length=64)]
    """Logits of each band of the hash."""
    hash_calibration: Calibration
    fpr: Annotated[float, Meta(ge=0, le=1)]
    opset: int
    hash_digest: str | None = None
    """SHA-256 of the weights of a hash that registers, which the host computes; None for others."""
    key_fingerprint: str | None = None
    """The key that pictures are marked with, where the export was told; never the key itself."""
    graphs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """File names by graph ("verify" or "hash", "embed") and precision ("fp32", ...)."""
    engines: tuple[Engine, ...] = ()
    """Compiled graphs, and what each was compiled for."""
    parity: Mapping[str, Any] = field(default_factory=dict)
    """How far each precision agrees with the SDK on real photos, as measured at export."""
    version: Annotated[str, Meta(max_length=LONGEST_VERSION)] | None = None
    """What its makers call this bundle, to tell it from earlier ones."""
    plugin: HostPlugin | None = None
    made: Mapping[str, Any] = field(default_factory=dict)
    """Versions and time of the export."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file of the bundle besides the manifest and its signature."""

    def __post_init__(self) -> None:
        graphs = [file for precisions in self.graphs.values() for file in precisions.values()]
        for name in (*graphs, *(engine.file for engine in self.engines), *self.files):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts or {*name} & {"\\", "\0"}:
                raise ValueError(f"'{name}' is not the name of a file inside a bundle")
        for fitted in (self.calibration, self.hash_calibration):
            if not (0 <= fitted.scale <= 1e12 and 0 <= fitted.power <= 1e3):
                raise ValueError(f"no logits are calibrated by {fitted}")

    @property
    def graph_size(self) -> tuple[int, int]:
        """Height and width of the pictures that the graphs take."""
        return self.size or self.hash_size

    @property
    def description_shape(self) -> tuple[int, ...]:
        """What the hash keeps of one picture: its thumbnail if it registers, else its logits."""
        return (sum(self.bands),) if self.hash_digest is None else (3, *self.hash_size)

    def to_json(self) -> bytes:
        """The manifest as it is stored."""
        return stamped(asdict(replace(self, files=dict(sorted(self.files.items())))))

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> Manifest:
        """Read a manifest; ``path`` is for the error messages."""
        try:
            header = msgspec.json.decode(content, type=_Header)
        except (ValueError, RecursionError):
            raise BundleError(f"{path} is not the manifest of a bundle: export it again") from None
        if header.schema != SCHEMA:
            raise BundleError(
                f"{path} was written by another version (schema {header.schema}, this one reads "
                f"{SCHEMA}): update coverlock-sdk and export the bundle again"
            )
        blanked = content.replace(header.sha256.encode(), _BLANK.encode(), 1)
        if hashlib.sha256(blanked).hexdigest() != header.sha256:
            raise BundleError(
                f"{path} is not as it was written (its SHA-256 differs): "
                "copy or export the bundle again"
            )
        try:
            return msgspec.json.decode(content, type=cls)
        except (ValueError, RecursionError) as error:
            raise BundleError(
                f"{path} is incomplete or damaged ({error}): export the bundle again"
            ) from None


@dataclass(frozen=True)
class _Header:
    """What tells whether a manifest can be read, and is whole."""

    schema: int
    sha256: str = ""


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

        With ``trust`` a bundle is refused unless it is signed by the holder of that public key: the
        path of its file, or several of them. "any" is everybody. A file may also say since when
        bundles are trusted, so that nobody brings an old one back.
        """
        folder = Path(path)
        content = _read(folder / MANIFEST, f"{folder} is not a bundle: it has no {MANIFEST}")
        signed = trust is not None and trust != ANYONE
        since = check_signature(folder, content, trust) if signed else ""
        bundle = cls(folder, Manifest.from_json(content, folder / MANIFEST), signed)
        made = str(bundle.manifest.made.get("time", ""))
        if made < since:
            raise BundleError(
                f"{folder} was exported {made or 'at an unknown time'}, and the key that signed it "
                f"counts since {since}: use a newer bundle"
            )
        for name, digest in bundle.manifest.files.items():
            if file_digest(bundle._listed(name)) != digest:
                raise _altered(folder, name)
        return bundle

    @classmethod
    def given(cls, bundle: PathLike | Bundle, trust: Any) -> Bundle:
        """The bundle in a folder, with a warning where ``trust`` is missing, or an open bundle.

        An open bundle may have been opened with another key, so with ``trust`` it is checked again.
        """
        if isinstance(bundle, Bundle):
            return bundle if trust is None else cls.open(bundle.path, trust)
        if trust is None:
            warnings.warn(
                f"{bundle} was opened without checking who made it: name the signer's public key "
                f"with trust= or --trust, or '{ANYONE}' if you trust everyone who can write there",
                UntrustedBundleWarning,
                stacklevel=3,
            )
        return cls.open(bundle, trust)

    @property
    def graph(self) -> str:
        """The graph that verification runs; without a decoder in it where a plugin decodes."""
        return "verify" if self.manifest.plugin is None else "hash"

    def file(self, graph: str = "verify", precision: str = "fp32") -> str:
        """Name of the file that holds ``graph`` in ``precision``."""
        precisions = self.manifest.graphs.get(graph)
        if not precisions:
            hosted = "its watermark is not a network and is decoded on the host"
            remedy = "export it again" if self.manifest.plugin is None else hosted
            raise BundleError(f"{self.path} has no graph '{graph}': {remedy}")
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

    def engines(self, graph: str, precision: str) -> list[Engine]:
        """The engines of a graph in a precision; those of an older export of it are left out."""
        wanted = graph, precision, self.manifest.files[self.file(graph, precision)]
        return [e for e in self.manifest.engines if (e.graph, e.precision, e.source) == wanted]

    def with_engine(self, content: bytes, engine: Engine) -> Bundle:
        """Put a compiled engine into the bundle.

        The signature goes, because the manifest is no longer what was signed.
        """
        name, manifest = engine.file, self.manifest
        manifest = replace(
            manifest,
            engines=(*manifest.engines, engine),
            files={**manifest.files, name: hashlib.sha256(content).hexdigest()},
        )
        with _explained(self.path):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / name, content)
            (self.path / SIGNATURE).unlink(missing_ok=True)
            write_atomically(self.path / MANIFEST, manifest.to_json())
        return replace(self, manifest=manifest, signed=False)

    def sign(self, private_key: PathLike) -> Path:
        """Sign the manifest with a private key in PEM format; returns the file of the signature."""
        content = _read(self.path / MANIFEST, f"{self.path} has no {MANIFEST} any more")
        signature = signature_of(content, private_key)
        with _explained(self.path / SIGNATURE):
            write_atomically(self.path / SIGNATURE, signature)
        return self.path / SIGNATURE

    def _listed(self, name: str) -> Path:
        if name not in self.manifest.files:
            raise BundleError(f"the manifest of {self.path} does not list the file {name}")
        path = self.path / name
        if not path.is_file():
            raise BundleError(f"{self.path} lacks the file {name}: copy or export it again")
        return path


@contextlib.contextmanager
def building(out: Path) -> Iterator[Path]:
    """A folder to build in; it becomes ``out`` when all went well, and goes otherwise."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BundleError(f"{out} exists: choose another folder, or remove it")
    with _explained(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = out.parent / f".{out.name}.{os.getpid()}"
        folder.mkdir()
    try:
        yield folder
        with _explained(out):
            folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def seal(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of the files in ``folder``, with the digest of each."""
    files = {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MANIFEST, SIGNATURE)
    }
    with _explained(folder):
        write_atomically(folder / MANIFEST, replace(manifest, files=files).to_json())


def stamped(document: Mapping[str, Any]) -> bytes:
    """``document`` as a manifest of this schema that carries its own SHA-256.

    The digest is that of the very bytes that are written, with zeros in its own place.
    """
    whole = {"schema": SCHEMA, "sha256": _BLANK, **document}
    content = json.dumps(whole, indent=2).encode() + b"\n"
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(_BLANK.encode(), digest.encode(), 1)


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
