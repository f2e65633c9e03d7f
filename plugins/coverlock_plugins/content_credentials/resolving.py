"""Finds the manifest of a picture: the one inside it, or else the one that its mark leads to.

A manifest that is found by the mark counts only if all of its soft bindings match: the lock must
verify on this very picture, and the picture must look like the one that was signed. The registry
must also remember the picture by its long code, so a collision of the public fingerprint is not
enough. A manifest by an untrusted signer never counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_plugins.content_credentials.lookups import (
    Shelf,
    Shelves,
    byte_length,
    distance,
    most_distance,
)
from coverlock_plugins.content_credentials.manifests import (
    HARD_BINDINGS,
    UNTRUSTED,
    SignedManifest,
    read_embedded,
    read_store,
)
from coverlock_plugins.content_credentials.repository import Entry, ManifestRepository
from coverlock_plugins.content_credentials.soft_bindings import (
    LOCK,
    SoftBindings,
    fingerprint_algorithm,
    fingerprint_of,
)
from coverlock_sdk.documents import read_file
from coverlock_sdk.errors import KeyringError
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.scaling.job import MOST_FILE_BYTES

if TYPE_CHECKING:
    from coverlock_sdk import ImageHash, PictureVerifier, Verdict


@dataclass(frozen=True)
class Match:
    """A manifest in the repository whose soft bindings all match a picture."""

    verdict: Verdict
    manifest: SignedManifest
    bindings: SoftBindings
    similarity: float
    """The share of the signed fingerprint that agrees with the picture, from 0 to 1."""

    def to_dict(self) -> dict[str, Any]:
        """The match as plain JSON values, named as C2PA names them in recovered ingredients."""
        return {
            "softBindingsMatched": True,
            "softBindingAlgorithmsMatched": self.bindings.algorithms,
            "similarityScore": round(100 * self.similarity),
            "serial": self.bindings.serial,
            "verdict": self.verdict.to_dict(),
        }


@dataclass(frozen=True)
class Resolution:
    """Where a picture comes from. It is true if there is a manifest."""

    manifest: SignedManifest | None
    how: Literal["embedded", "mark"] | None
    reason: str
    """Why this manifest, or why none, in a sentence."""
    match: Match | None = None
    """How the soft bindings matched, if the mark led to the manifest."""

    def __bool__(self) -> bool:
        return self.manifest is not None

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain JSON values."""
        found = self.manifest
        return {
            "accepted": bool(self),
            "reason": self.reason,
            "how": self.how,
            "manifest_id": found.id if found else None,
            "signer": found.signer if found else None,
            **(self.match.to_dict() if self.match else {"softBindingsMatched": False}),
            "manifest": found.content if found else None,
        }


class _Near(NamedTuple):
    """A manifest by a trusted signer whose fingerprint is within reach."""

    manifest: SignedManifest
    bindings: SoftBindings
    similarity: float


class Resolver:
    """Finds the manifests of pictures in a repository, with the verifiers of their watermarks.

    ``trust`` holds the certificates of trusted signers, in PEM format.
    """

    def __init__(
        self, repository: ManifestRepository, verifiers: Sequence[PictureVerifier], trust: bytes
    ) -> None:
        self.repository, self.verifiers, self.trust = repository, verifiers, trust
        self._shelves = Shelves(repository)
        for verifier, _, shelf in self._searched():
            _require_key(verifier, shelf)

    def resolve(self, picture: str | Path | bytes) -> Resolution:
        """Find the manifest of a picture file: the one inside it, or else by its mark."""
        content = picture if isinstance(picture, bytes) else read_file(picture, MOST_FILE_BYTES)
        try:
            embedded = read_embedded(content, self.trust)
            refused = embedded.problem() if embedded else None
        except (
            ProvenanceError
        ) as error:  # a damaged manifest must not hide the one that the mark leads to
            embedded, refused = None, str(error)
        if embedded is not None and refused is None:
            return Resolution(embedded, "embedded", self._of_embedded(embedded, content))
        match = self.match(content)
        if match is None:
            return Resolution(None, None, refused or self._refusal(content))
        reason = "the mark in the picture leads to this manifest, and all soft bindings match"
        if refused:
            reason = f"{reason}; of the one inside the picture, {refused}"
        return Resolution(match.manifest, "mark", reason, match)

    @property
    def algorithms(self) -> tuple[list[str], list[str]]:
        """The soft bindings that can be looked up: watermarks, and fingerprints."""
        hashes = sorted({verifier.hash_name for verifier in self.verifiers if verifier.hash_name})
        return [LOCK], [fingerprint_algorithm(hash) for hash in hashes]

    def look_up(self, algorithm: str, value: bytes) -> list[tuple[str, float]]:
        """Manifests with this soft binding and their similarity from 0 to 1, the highest first.

        This does not check whether any picture belongs to them.
        """
        watermarks, looks = self.algorithms
        if algorithm in watermarks:
            entry = self.repository.entry("serial", value.decode(errors="replace"))
            return [(entry.manifest, 1.0)] if entry and self.manifest(entry).trusted else []
        if algorithm not in looks:
            known = ", ".join([*watermarks, *looks])
            raise ProvenanceError(f"'{algorithm}' cannot be looked up here: use one of {known}")
        found: list[tuple[str, float]] = []
        for _, hash, shelf in self._searched():
            if fingerprint_algorithm(hash.name) == algorithm:
                size = byte_length(hash.dimensions)
                if len(value) != size:
                    raise ProvenanceError(f"a fingerprint has {len(value)} bytes instead of {size}")
                near = self._near(hash, shelf, value)
                found += [(each.manifest.id, each.similarity) for each in near]
        return sorted(found, key=lambda each: -each[1])

    def match(self, picture: Any) -> Match | None:
        """The manifest that the mark in a picture leads to, if all soft bindings match."""
        given = Given(picture)
        for verifier, hash, shelf in self._searched():
            decoded, described = verifier.logits(picture)
            fingerprint = fingerprint_of(hash.code(described[0]))
            near = {each.bindings.serial: each for each in self._near(hash, shelf, fingerprint)}
            if not near:
                continue
            lock = replace(verifier.lock, registry=self.repository.registry)
            book = lock.book(list(near))
            [found] = lock.identify(decoded, described, book, thorough=True)
            verifier.announce([found.verdict], given)
            if found:
                return Match(found.verdict, *near[found.label])
        return None

    def manifest(self, entry: Entry) -> SignedManifest:
        """The manifest of an entry; raises if it was changed."""
        manifest = read_store(self.repository.content(entry), self.trust)
        if problem := manifest.problem(expected=HARD_BINDINGS | {UNTRUSTED}):
            raise ProvenanceError(problem)
        if manifest.id != entry.manifest or not entry.bindings.are_those_of(manifest.content):
            raise ProvenanceError(
                f"the repository {self.repository.folder} contradicts the signed manifest "
                f"{manifest.id}: restore its database from a backup"
            )
        return manifest

    def _searched(self) -> Iterator[tuple[PictureVerifier, ImageHash, Shelf]]:
        """Each verifier with its hash and the entries that it can find."""
        for verifier in self.verifiers:
            hash = verifier.lock.hash
            shelf = hash and self._shelves.of(verifier.watermark_name, hash, verifier.bits)
            if hash and shelf:
                yield verifier, hash, shelf

    def _near(self, hash: ImageHash, shelf: Shelf, fingerprint: bytes) -> list[_Near]:
        """The manifests whose fingerprint is within reach, the nearest first."""
        found = []
        for number in shelf.nearest(fingerprint, hash.dimensions):
            entry = self.repository.entry("number", number)
            manifest = entry and self.manifest(entry)
            if entry and manifest and manifest.trusted:
                bits = distance(fingerprint, entry.bindings.fingerprint)  # the signed fingerprint
                if bits <= most_distance(hash.dimensions):
                    found.append(_Near(manifest, entry.bindings, 1 - bits / hash.dimensions))
        return found

    def _of_embedded(self, embedded: SignedManifest, picture: bytes) -> str:
        """What to say about a manifest inside a picture, which may have replaced another."""
        reason = "the picture carries its manifest, and is as it was signed"
        if self.repository.entry("manifest", embedded.id) is not None:
            return reason
        other = self.match(picture)
        if other is None:
            return reason
        return (
            f"{reason}; its mark leads to another manifest, {other.manifest.id} by "
            f"'{other.manifest.signer}': it was edited from that one, or has replaced it"
        )

    def _refusal(self, picture: bytes) -> str:
        """Why a picture has no manifest: it has no mark, or that of another picture."""
        for verifier, _, shelf in self._searched():
            decoded, _ = verifier.logits(picture)
            number = shelf.bearer((decoded[0] > 0).astype("uint8"), verifier.fpr)
            entry = None if number is None else self.repository.entry("number", number)
            if entry and self.manifest(entry).trusted:
                return (
                    f"the picture carries the mark of '{entry.bindings.serial}' but is another "
                    "picture: the mark was transplanted, or the picture was cropped or changed "
                    "beyond recognition"
                )
        return "the picture has no manifest, and no mark that leads to one"


def _require_key(verifier: PictureVerifier, shelf: Shelf) -> None:
    held = {key.fingerprint for key in verifier.lock.keys if key}
    if held.isdisjoint(shelf.keys):
        names = ", ".join(sorted(f"'{key}'" if key else "none" for key in shelf.keys))
        raise KeyringError(
            f"the pictures of '{verifier.watermark_name}' in the repository were locked with other "
            f"keys ({names}): name their key file with --key-file"
        )
