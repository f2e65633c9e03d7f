"""From a picture to its manifest: the one inside it, or else the one that its mark leads to.

A manifest that is found by the mark counts only if all of its soft bindings match: the lock must
verify on this very picture, and the picture must look like the one that was signed. The registry
must also remember the picture by its long code, so a collision of the public fingerprint is not
enough. A manifest of a signer that nobody trusts never counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from coverlock_plugins.content_credentials.alterations import AlterationMap, alterations
from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.lookups import (
    Shelf,
    Shelves,
    distance,
    fingerprints,
    most_distance,
)
from coverlock_plugins.content_credentials.manifests import (
    HARD_BINDINGS,
    UNTRUSTED,
    Manifest,
    read_embedded,
    read_store,
)
from coverlock_plugins.content_credentials.repository import Entry, ManifestRepository
from coverlock_plugins.content_credentials.soft_bindings import (
    LOCK,
    as_text,
    fingerprint_algorithm,
)
from coverlock_sdk.errors import KeyringError, PictureError
from coverlock_sdk.images.conversion import Given, read

if TYPE_CHECKING:
    from coverlock_sdk.contract import ImageHash
    from coverlock_sdk.locking.picture_verifier import PictureVerifier
    from coverlock_sdk.locking.verdict import Verdict

How = Literal["embedded", "mark"]


@dataclass(frozen=True)
class Match:
    """A manifest of the repository all of whose soft bindings a picture matches."""

    manifest: Manifest
    verdict: Verdict
    distance: int
    """Bits in which the picture's fingerprint differs from the signed one."""
    dimensions: int
    """Bits of a fingerprint."""

    @property
    def likeness(self) -> float:
        """The share of the signed fingerprint that the picture has, from 0 to 1."""
        return 1 - self.distance / self.dimensions

    def to_dict(self) -> dict[str, Any]:
        """The match as plain JSON values, named as C2PA names them in recovered ingredients."""
        bindings = self.manifest.bindings
        return {
            "softBindingsMatched": True,
            "softBindingAlgorithmsMatched": bindings.algorithms,
            "serial": bindings.serial,
            "verdict": self.verdict.to_dict(),
            "fingerprint": {
                "distance": self.distance,
                "tolerance": most_distance(self.dimensions),
                "bits": self.dimensions,
            },
        }


@dataclass(frozen=True)
class Resolution:
    """What is known of where a picture comes from. It is true where there is a manifest."""

    manifest: Manifest | None
    how: How | None
    reason: str
    """In a sentence, why this manifest, or why none."""
    match: Match | None = None
    """How the soft bindings matched, where the mark led to the manifest."""
    altered: AlterationMap | None = None
    """Where the picture seems to differ from the one that was signed; None where there is no
    thumbnail, or the picture does not lie on it because it was cropped or turned."""

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
            "trusted": found.trusted if found else None,
            **(self.match.to_dict() if self.match else {"softBindingsMatched": False}),
            "altered": self.altered.to_dict() if self.altered else None,
            "manifest": found.content if found else None,
        }


class _Searched(NamedTuple):
    """A verifier, what there is for it to find, and the hash of both."""

    verifier: PictureVerifier
    shelf: Shelf
    hash: ImageHash


class Resolver:
    """Finds the manifests of pictures in a repository, with the verifiers of their watermarks."""

    def __init__(
        self,
        repository: ManifestRepository,
        verifiers: Sequence[PictureVerifier],
        trust: bytes,
    ) -> None:
        self.repository = repository
        self.verifiers = verifiers
        self.trust = trust
        """Certificates of those who may sign, in PEM format."""
        self._shelves = Shelves(repository)
        for verifier, shelf, _ in self._searched():
            _require_key(verifier, shelf)

    def resolve(self, picture: str | Path | bytes) -> Resolution:
        """Find the manifest of a picture file: inside it first, and else by its mark."""
        content = picture if isinstance(picture, bytes) else _content(Path(picture))
        try:
            embedded = read_embedded(content, self.trust)
            refused = embedded.problem() if embedded else None
        except ProvenanceError as error:  # a damaged one must not hide what the mark leads to
            embedded, refused = None, str(error)
        if embedded is not None and refused is None:
            return Resolution(embedded, "embedded", self._of_embedded(embedded, content))
        match = self.match(content)
        if match is None:
            return Resolution(None, None, refused) if refused else self._refusal(content)
        reason = "the mark in the picture leads to this manifest, and all soft bindings match"
        if refused:
            reason = f"{reason}; of the one inside the picture, {refused}"
        return Resolution(match.manifest, "mark", reason, match, _altered(match.manifest, content))

    @property
    def algorithms(self) -> tuple[list[str], list[str]]:
        """The soft bindings that can be looked up: watermarks, and fingerprints."""
        hashes = sorted({verifier.hash_name for verifier in self.verifiers if verifier.hash_name})
        return [LOCK], [fingerprint_algorithm(hash) for hash in hashes]

    def look_up(self, algorithm: str, value: bytes) -> list[tuple[str, float]]:
        """Manifests with this soft binding, and from 0 to 1 how near theirs is, nearest first.

        Whether a picture belongs to them is for whoever asks to find out.
        """
        watermarks, looks = self.algorithms
        if algorithm in watermarks:
            entry = self.repository.of_serial(as_text(value))
            return [(entry.manifest, 1.0)] if entry and self._usable(entry) else []
        if algorithm not in looks:
            known = ", ".join([*watermarks, *looks])
            raise ProvenanceError(f"'{algorithm}' cannot be looked up here: use one of {known}")
        found: list[tuple[int, int, float]] = []
        for searched in self._searched():
            if fingerprint_algorithm(searched.hash.name) == algorithm:
                size = searched.hash.dimensions
                near = searched.shelf.nearest(_fingerprint(value, size), most_distance(size))
                found += [(bits, number, 1 - bits / size) for bits, number in near]
        entries = [
            (self.repository.of_number(number), likeness) for _, number, likeness in sorted(found)
        ]
        return [(entry.manifest, likeness) for entry, likeness in entries if self._usable(entry)]

    def match(self, picture: Any) -> Match | None:
        """The manifest that the mark in a picture leads to, if all soft bindings match."""
        given = Given(picture)
        for verifier, shelf, image_hash in self._searched():
            decoded, described = verifier.logits(picture)
            [fingerprint] = fingerprints(image_hash.code(described[0]))
            nearest = shelf.nearest(fingerprint, most_distance(image_hash.dimensions))
            near = [self.repository.of_number(number) for _, number in nearest]
            near = [entry for entry in near if self._usable(entry)]
            if not near:
                continue
            lock = replace(verifier.lock, registry=self.repository.registry)
            book = lock.book([entry.bindings.serial for entry in near])
            [found] = lock.identify(decoded, described, book, thorough=True)
            verifier.announce([found.verdict], given)
            if found:
                [entry] = [entry for entry in near if entry.bindings.serial == found.label]
                return self._checked(entry, found.verdict, fingerprint, image_hash.dimensions)
        return None

    def manifest(self, entry: Entry) -> Manifest:
        """The manifest of an entry, unless somebody altered it."""
        manifest = read_store(self.repository.content(entry), self.trust)
        if problem := manifest.problem(expected=HARD_BINDINGS | {UNTRUSTED}):
            raise ProvenanceError(problem)
        if manifest.id != entry.manifest or manifest.bindings != entry.bindings:
            raise ProvenanceError(
                f"the repository {self.repository.folder} says otherwise than the signed manifest "
                f"{manifest.id}: restore its database from a backup"
            )
        return manifest

    def _usable(self, entry: Entry) -> bool:
        """Whether the manifest of an entry has a signer who is trusted here."""
        return self.manifest(entry).trusted

    def _checked(
        self, entry: Entry, verdict: Verdict, fingerprint: bytes, dimensions: int
    ) -> Match | None:
        """The match with a manifest, if the picture looks like the signed fingerprint says."""
        manifest = self.manifest(entry)
        bits = distance(fingerprint, manifest.bindings.fingerprint)
        near = bits <= most_distance(dimensions)
        return Match(manifest, verdict, bits, dimensions) if near else None

    def _searched(self) -> Iterator[_Searched]:
        """Each verifier with what there is for it to find."""
        shelves = self._shelves.all()
        for verifier in self.verifiers:
            image_hash = verifier.lock.hash
            if image_hash is None:
                continue
            shelf = shelves.get((verifier.watermark_name, image_hash.name))
            if shelf is not None:
                yield _Searched(verifier, shelf, image_hash)

    def _of_embedded(self, embedded: Manifest, picture: bytes) -> str:
        """What to say of a manifest inside a picture; a stranger's may have replaced another."""
        reason = "the picture carries its manifest, and is as it was signed"
        if self.repository.of_manifest(embedded.id) is not None:
            return reason
        other = self.match(picture)
        if other is None:
            return reason
        return (
            f"{reason}; its mark leads to another manifest, {other.manifest.id} by "
            f"'{other.manifest.signer}', from which it was edited or which it was put in place of"
        )

    def _refusal(self, picture: bytes) -> Resolution:
        """Why a picture has no manifest: no mark, one of another picture, or too many changes."""
        for verifier, shelf, _ in self._searched():
            decoded, _ = verifier.logits(picture)
            number = shelf.bearer((decoded[0] > 0).astype("uint8"), verifier.fpr)
            if number is None:
                continue
            entry = self.repository.of_number(number)
            if not self._usable(entry):
                continue
            altered = _altered(self.manifest(entry), picture)
            what = (
                "but is another picture: the mark was transplanted, or the picture was cropped or "
                "changed beyond recognition"
                if altered is None
                else f"and looks like it but for {altered.altered.sum()} of {altered.altered.size} "
                "cells: it was altered so far that its soft bindings no longer match"
            )
            reason = f"the picture carries the mark of '{entry.bindings.serial}' {what}"
            return Resolution(None, None, reason, altered=altered)
        return Resolution(None, None, "the picture has no manifest, and no mark that leads to one")


def _fingerprint(value: bytes, dimensions: int) -> bytes:
    """The value of a fingerprint's soft binding, if it is as long as the hash makes them."""
    size = -(-dimensions // 8)
    if len(value) != size:
        raise ProvenanceError(f"a fingerprint has {len(value)} bytes instead of {size}")
    return value


def _altered(manifest: Manifest, picture: bytes) -> AlterationMap | None:
    """Where a picture differs from its signed thumbnail, if the two can be compared."""
    found = alterations(manifest.thumbnail, read(picture)) if manifest.thumbnail else None
    return found if found and found.comparable else None


def _require_key(verifier: PictureVerifier, shelf: Shelf) -> None:
    held = {key.fingerprint for key in verifier.lock.keys if key}
    if held.isdisjoint(shelf.keys):
        names = ", ".join(sorted(f"'{key}'" if key else "none" for key in shelf.keys))
        raise KeyringError(
            f"the pictures of '{verifier.watermark_name}' in the repository were locked with other "
            f"keys ({names}): name their key file with --key-file"
        )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PictureError(f"{path} cannot be read ({error.strerror or error})") from None
