import sqlite3
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_plugins.content_credentials.credentials import trust_anchors
from coverlock_plugins.content_credentials.manifests import read_embedded, sign_picture
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings
from coverlock_sdk import Key
from coverlock_sdk.errors import KeyringError, MessageError
from tests.coverlock_plugins.content_credentials.certificates import (
    credentials_in,
    make_certificates,
)
from tests.coverlock_plugins.content_credentials.conftest import jpeg, pixels, transplant
from tests.served import png
from tests.toy_bundle import toy_lock


def test_a_signed_picture_carries_a_valid_manifest_with_both_soft_bindings(studio):
    manifest = read_embedded(studio.signed[0].path.read_bytes())
    assert manifest.problem() is None
    bindings = studio.entry(0).bindings
    assert bindings.are_those_of(manifest.content)
    assert bindings.serial == studio.signed[0].serial == "order/000001"
    assert bindings.algorithms == [
        "io.github.coverlock.lock.1",
        "io.github.coverlock.fingerprint.projection",
    ]
    labels = [entry["label"] for entry in manifest.content["assertions"]]
    assert labels.count("c2pa.soft-binding") == 2
    data = {entry["label"]: entry["data"] for entry in manifest.content["assertions"]}
    actions = [action["action"] for action in data["c2pa.actions.v2"]["actions"]]
    assert actions == ["c2pa.opened", "c2pa.watermarked"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_stripped_picture_leads_to_its_own_manifest(studio, number):
    half = Image.open(studio.signed[number].path).convert("RGB").resize((150, 130))
    found = studio.resolver.resolve(jpeg(np.asarray(half)))
    assert found.how == "mark"
    assert found.manifest.id == studio.signed[number].manifest
    answer = found.to_dict()
    assert answer["softBindingsMatched"] is True
    assert answer["softBindingAlgorithmsMatched"] == found.match.bindings.algorithms
    assert answer["verdict"]["accepted"]
    assert 75 < answer["similarityScore"] <= 100


def test_a_transplanted_mark_leads_nowhere_and_is_told_so(studio, photos):
    found = studio.resolver.resolve(jpeg(transplant(studio, photos[2]), 95))
    assert not found
    assert "carries the mark of 'order/000001' but is another picture" in found.reason
    assert found.to_dict()["softBindingsMatched"] is False


def test_a_picture_without_a_mark_is_refused_in_other_words(studio, photos):
    found = studio.resolver.resolve(jpeg(photos[3]))
    assert not found
    assert found.reason == "the picture has no manifest, and no mark that leads to one"


def test_the_manifest_of_another_picture_is_refused(studio, photos):
    """The bytes of a manifest moved into another file: its hash does not fit."""
    found = studio.resolver.resolve(with_manifest(studio.signed[0], photos[3]))
    assert not found
    assert "it was made for another picture" in found.reason


def with_manifest(signed, picture: np.ndarray) -> bytes:
    """A picture with the manifest of another."""
    content = png(picture)
    return content[:33] + _c2pa_chunk(signed.path.read_bytes()) + content[33:]


def _c2pa_chunk(png: bytes) -> bytes:
    at = png.index(b"caBX") - 4
    length = int.from_bytes(png[at : at + 4], "big")
    return png[at : at + 12 + length]


def signed_by_mallory(picture: np.ndarray, folder: Path) -> bytes:
    """A picture that somebody else signs, as their own."""
    credentials = credentials_in(make_certificates(folder, "Mallory"))
    plain = folder / "plain.png"
    plain.write_bytes(png(picture))
    bindings = SoftBindings("mine/1", "additive", "projection", None, bytes(32))
    return sign_picture(plain.read_bytes(), "image/png", plain, bindings, credentials)[0]


def test_a_manifest_by_an_unknown_signer_does_not_count(studio, photos, tmp_path):
    found = studio.resolver.resolve(signed_by_mallory(photos[3], tmp_path))
    assert not found
    assert "it is signed by an unknown signer" in found.reason


def damaged(content: bytes) -> bytes:
    """A signed picture whose manifest has a hole."""
    chunk = _c2pa_chunk(content)
    body = chunk[4:60] + bytes(8) + chunk[68:-4]
    return content.replace(chunk, chunk[:4] + body + zlib.crc32(body).to_bytes(4, "big"))


def test_a_manifest_that_does_not_count_hides_none_that_the_mark_leads_to(studio, tmp_path):
    first, second = studio.signed
    picture = pixels(first.path)
    for content, reason in (
        (with_manifest(second, picture), "it was made for another picture"),
        (signed_by_mallory(picture, tmp_path), "it is signed by an unknown signer"),
        (damaged(first.path.read_bytes()), "of the one inside the picture"),
    ):
        found = studio.resolver.resolve(content)
        assert (found.how, found.manifest.id) == ("mark", first.manifest)
        assert found.manifest.trusted
        assert reason in found.reason


def test_a_trusted_manifest_that_replaced_another_is_told_so(studio, tmp_path):
    """An agency whose certificate is trusted signs the marked picture anew."""
    signed = signed_by_mallory(pixels(studio.signed[0].path), tmp_path)
    both = trust_anchors(studio.root) + trust_anchors(tmp_path / "certificates" / "root.pem")
    found = Resolver(studio.repository, [studio.lock], both).resolve(signed)
    assert found.how == "embedded"
    assert f"its mark leads to another manifest, {studio.signed[0].manifest}" in found.reason


def test_manifests_of_signers_who_are_no_longer_trusted_are_not_found(studio, tmp_path):
    stranger = trust_anchors(make_certificates(tmp_path) / "root.pem")
    doubting = Resolver(studio.repository, [studio.lock], stranger)
    assert not doubting.resolve(jpeg(pixels(studio.signed[0].path)))
    [lock], [looks] = doubting.algorithms
    first = studio.entry(0).bindings
    assert doubting.look_up(lock, first.serial.encode()) == []
    assert doubting.look_up(looks, first.fingerprint) == []


def test_a_collision_of_the_public_fingerprint_is_not_enough(own_studio):
    """The registry remembers another picture under this serial: its long code decides."""
    with sqlite3.connect(own_studio.repository.registry.path) as connection:
        connection.execute(
            "UPDATE pictures SET code = (SELECT code FROM pictures WHERE name = 'order/000002') "
            "WHERE name = 'order/000001'"
        )
    connection.close()
    assert not own_studio.resolver.resolve(jpeg(pixels(own_studio.signed[0].path)))


def test_a_file_altered_on_disk_is_refused(own_studio):
    path = own_studio.repository.folder / "manifests" / f"{own_studio.entry(0).sha256}.c2pa"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ProvenanceError, match="was changed after it was added"):
        own_studio.resolver.resolve(jpeg(pixels(own_studio.signed[0].path)))


def test_a_database_that_contradicts_the_manifest_is_refused(own_studio):
    with sqlite3.connect(own_studio.folder / "repository" / "repository.db") as connection:
        connection.execute("UPDATE manifests SET key = 'feedbeef' WHERE number = 1")
    connection.close()
    with pytest.raises(ProvenanceError, match="contradicts the signed manifest"):
        own_studio.resolver.resolve(jpeg(pixels(own_studio.signed[0].path)))


def test_a_serial_is_used_once(studio, tmp_path):
    with pytest.raises(MessageError, match="stands for another picture"):
        studio.signer.sign(studio.originals[1], tmp_path / "out.png", studio.signed[0].serial)
    assert not (tmp_path / "out.png").exists()


def test_signing_needs_a_lock_that_remembers(own_studio):
    with pytest.raises(ProvenanceError, match=r"registry=repository\.registry"):
        PictureSigner(toy_lock(), own_studio.repository, own_studio.signer.credentials)


def test_the_wrong_key_is_named(studio):
    other = toy_lock(key=Key(bytes(32), id="other"))
    with pytest.raises(KeyringError, match="were locked with other keys"):
        Resolver(studio.repository, [other], trust_anchors(studio.root))
