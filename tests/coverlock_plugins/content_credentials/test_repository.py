import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from coverlock_plugins.content_credentials.credentials import Credentials
from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.lookups import Look, Shelf, distance
from coverlock_plugins.content_credentials.repository import ManifestRepository, Merged
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner
from coverlock_plugins.content_credentials.trial_certificates import make_trial_certificates
from tests.coverlock_plugins.content_credentials.conftest import KEY, jpeg, pixels
from tests.toy_bundle import toy_lock


def test_an_altered_manifest_is_refused(own_studio):
    store = bytearray(own_studio.repository.content(own_studio.repository.entries()[0]))
    at = store.index(b"fingerprint.projection")
    store[at : at + 4] = b"xxxx"
    with pytest.raises(ProvenanceError, match="cannot be used|cannot be read"):
        own_studio.repository.add(bytes(store), b"", own_studio.trust)


def signed_elsewhere(studio, photo, folder, serial, files=None) -> ManifestRepository:
    """The repository of another machine with the same key, with one picture."""
    other = ManifestRepository(folder / "other", create=True)
    files = files or studio.files
    credentials = Credentials.load(files.chain, files.key)
    signer = PictureSigner(toy_lock(key=KEY, registry=other.registry), other, credentials)
    Image.fromarray(photo).save(folder / "other.png")
    signer.sign(folder / "other.png", folder / "other-signed.png", serial)
    return other


def test_a_serial_that_is_taken_is_reported_and_skipped(own_studio, photos, tmp_path):
    """Two machines number pictures alike."""
    other = signed_elsewhere(own_studio, photos[5], tmp_path, "order/000001")
    merged = own_studio.repository.merge(other, own_studio.trust)
    assert merged.added == 0
    assert "both claim the serial 'order/000001'" in merged.skipped[0]
    kept = own_studio.repository.of_serial("order/000001")
    assert kept.manifest == own_studio.signed[0].manifest


def test_a_stranger_cannot_claim_a_serial_by_being_first(own_studio, photos, tmp_path):
    mallory = make_trial_certificates(tmp_path / "mallory", "Mallory")
    theirs = signed_elsewhere(own_studio, photos[5], tmp_path, "order/000001", mallory)
    fresh = ManifestRepository(tmp_path / "fresh", create=True)
    merged = fresh.merge(theirs, own_studio.trust)
    assert merged.added == 0
    assert "it is signed by an unknown signer" in merged.skipped[0]
    assert fresh.merge(own_studio.repository, own_studio.trust).added == 2


def test_repositories_are_merged_once_and_lead_to_the_same_manifests(own_studio, tmp_path):
    merged = ManifestRepository(tmp_path / "merged", create=True)
    assert merged.merge(own_studio.repository, own_studio.trust) == Merged(2, ())
    assert merged.merge(own_studio.repository, own_studio.trust) == Merged(0, ())
    assert [e.bindings for e in merged.entries()] == [
        e.bindings for e in own_studio.repository.entries()
    ]
    with pytest.raises(ProvenanceError, match="already"):
        merged.add(merged.content(merged.entries()[0]), b"", own_studio.trust)
    resolver = Resolver(merged, [own_studio.lock], own_studio.trust)
    found = resolver.resolve(jpeg(pixels(own_studio.signed[1].path)))
    assert found.manifest.id == own_studio.signed[1].manifest


def some(size: int, most: int):
    return st.lists(st.binary(min_size=size, max_size=size), min_size=2, max_size=most)


@given(st.sampled_from([32, 128, 13]).flatmap(lambda size: some(size, 20)), st.integers(0, 256))
def test_the_nearest_are_those_within_reach_in_order(fingerprints, most):
    wanted, *stored = fingerprints
    looks = [Look(n, "w", "h", None, value, b"abcd") for n, value in enumerate(stored)]
    found = Shelf.of(looks[:1])
    for look in looks[1:]:
        found = found + Shelf.of([look])
    near = found.nearest(wanted, most)
    expected = sorted((distance(value, wanted), n) for n, value in enumerate(stored))
    assert near == [(bits, n) for bits, n in expected if bits <= most]


def test_the_bearer_of_a_payload_is_found_despite_errors_and_not_by_chance():
    rng = np.random.default_rng(0)
    payloads = rng.integers(0, 2, (500, 64), dtype=np.uint8)
    looks = [
        Look(n, "w", "h", None, bytes(32), np.packbits(bits).tobytes())
        for n, bits in enumerate(payloads)
    ]
    shelf = Shelf.of(looks)
    damaged = payloads[123].copy()
    damaged[:6] ^= 1
    assert shelf.bearer(damaged, 1e-6) == 123
    assert shelf.bearer(rng.integers(0, 2, 64, dtype=np.uint8), 1e-6) is None
    assert shelf.bearer(damaged[:32], 1e-6) is None


def test_what_the_repository_remembers_is_private(tmp_path):
    ManifestRepository(tmp_path, create=True)
    assert (tmp_path / "repository.db").stat().st_mode & 0o777 == 0o600
