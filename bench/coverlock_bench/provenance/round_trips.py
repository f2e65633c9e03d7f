"""Signed pictures on their way: which find their manifest again, and which forgeries find one.

Each photo is signed with the lock and, for comparison, the usual way. Then manifests are stripped,
and marks are lifted off (with the original at hand, which is more than a forger has) and put onto
other photos.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.photos import Picture8
from coverlock_bench.provenance.sharing import stripped
from coverlock_bench.provenance.unlocked import UnlockedVendor
from coverlock_sdk import wrap
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import encode_image
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.serials import Serial
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress
from coverlock_sdk.provenance.credentials import Credentials
from coverlock_sdk.provenance.fingerprints import distance, fingerprints, tolerance_of
from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.resolving import Resolver
from coverlock_sdk.provenance.signing import PictureSigner
from coverlock_sdk.provenance.trial_certificates import make_trial_certificates

SHARED = {"half size, JPEG 80": 0.5, "JPEG 80": 1.0}
"""How pictures are handed on: the scale, at one quality."""


@dataclass(frozen=True)
class Subject:
    """A photo, signed with the lock and without it."""

    photo: Path
    serial: Serial
    manifest: str
    original: Picture8
    locked: Picture8
    unlocked: Picture8


class Case:
    """One watermark and one hash, with everything signed."""

    def __init__(self, watermark: str, hash: str, fpr: float, folder: Path) -> None:
        files = make_trial_certificates(folder / "certificates")
        credentials = Credentials.load(files.chain, files.key)
        self.lock = wrap(watermark, hash=hash, key=key_of("scheme 2"), fpr=fpr)
        self.repository = ManifestRepository(folder / "repository", create=True)
        self.signer = PictureSigner(self.lock, self.repository, credentials)
        self.vendor = UnlockedVendor(watermark, credentials, fpr)
        self.folder = folder
        self.subjects: list[Subject] = []
        self.refused = 0
        """Photos that cannot carry the mark, which signing refuses."""

    def sign(self, photo: Path) -> None:
        """Sign a photo both ways."""
        serial = self.repository.serials.issue("bench")
        target = self.folder / f"{photo.stem}.png"
        try:
            signed = self.signer.sign(photo, target, serial)
        except PictureError:
            self.refused += 1
            return
        unlocked = read(self.vendor.sign(photo, serial)).to_bytes()
        original, locked = read(photo).to_bytes(), read(target).to_bytes()
        self.subjects.append(Subject(photo, serial, signed.manifest, original, locked, unlocked))


def provenance(
    watermark: str, hash: str, photos: list[Path], transplants: int, fpr: float, seed: int
) -> dict[str, Any]:
    """Round trips of signed photos, and transplants between them."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(watermark, hash, fpr, Path(folder))
        for photo in progress(photos, f"{watermark}, {hash}: signing"):
            case.sign(photo)
        resolver = Resolver(case.repository, [case.lock])
        tolerance = tolerance_of(hash)
        return {
            "bits": case.lock.bits,
            "photos": len(photos),
            "refused": case.refused,
            "tolerance": tolerance.distance,
            "false_positives": tolerance.false_positives,
            "round_trips": {
                name: _round_trip(case, resolver, scale, name) for name, scale in SHARED.items()
            },
            "transplants": _transplants(case, resolver, transplants, seed),
        }


def _round_trip(case: Case, resolver: Resolver, scale: float, name: str) -> dict[str, Any]:
    """How many stripped pictures find their own manifest, and how many a wrong one."""
    right = wrong = 0
    drift: list[int] = []
    for subject in progress(case.subjects, name):
        match = resolver.resolve(stripped(subject.locked, scale)).match
        if match is not None:
            right += match.manifest.id == subject.manifest
            wrong += match.manifest.id != subject.manifest
            drift.append(match.distance)
    return {
        "found": rate(right, len(case.subjects)),
        "wrong": wrong,
        "largest_distance": max(drift, default=None),
    }


def _transplants(case: Case, resolver: Resolver, count: int, seed: int) -> dict[str, Any]:
    """Marks put onto other photos: how many lead to the manifest that they were lifted from."""
    rng = np.random.default_rng(seed)
    serials = [subject.serial for subject in case.subjects]
    ways = dict.fromkeys(("unlocked", "unlocked_fingerprint", "lock_alone", "locked"), 0)
    told = 0
    for _ in progress(range(count), "transplants"):
        source, target = (case.subjects[row] for row in rng.permutation(len(case.subjects))[:2])
        forged = _moved(source.unlocked, source.original, target.original)
        manifest = case.vendor.resolve(forged)
        ways["unlocked"] += manifest is not None
        near = _looks_like(case, source.unlocked, forged)
        ways["unlocked_fingerprint"] += manifest is not None and near
        forged = _moved(source.locked, source.original, target.original)
        ways["lock_alone"] += bool(case.lock.identify(forged, serials))
        found = resolver.resolve(encode_image(_image(forged), ".png"))
        ways["locked"] += bool(found)
        told += "carries the mark of" in found.reason
    return {**{name: rate(hits, count) for name, hits in ways.items()}, "told": rate(told, count)}


def _looks_like(case: Case, signed: Picture8, picture: Picture8) -> bool:
    """Whether two pictures have the same fingerprint, as C2PA's guidance asks for."""
    assert case.lock.hash is not None
    one, other = fingerprints(picture_logits(case.lock.hash, [signed, picture]))
    return distance(one, other) <= tolerance_of(case.lock.hash.name).distance


def _moved(marked: Picture8, original: Picture8, target: Picture8) -> Picture8:
    """What was added to ``original``, added to ``target``."""
    residual = marked.astype(np.int16) - original
    forged: Picture8 = np.clip(target + residual, 0, 255).astype(np.uint8)
    return forged


def _image(picture: Picture8) -> Any:
    from PIL import Image

    return Image.fromarray(picture)
