import json
import shutil
from dataclasses import asdict, fields

import pytest

from coverlock_sdk import Verifier
from coverlock_sdk.bundles.bundle import (
    MANIFEST,
    SCHEMA,
    Bundle,
    Manifest,
    building,
    seal,
    stamped,
)
from coverlock_sdk.bundles.engines import Engine
from coverlock_sdk.bundles.signing import SIGNATURE, generate_signing_key
from coverlock_sdk.errors import BundleError, CoverLockError, KeyringError
from coverlock_sdk.verifier.verifier import Settings
from tests.toy_bundle import write_toy_bundle

ENGINE = Engine("verify", "fp32", "0" * 64, "tensorrt", "10.13", (1, 8, 32), "sm90")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("bundles") / "toy").path


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "bundle")


@pytest.fixture
def signed(bundle, tmp_path):
    """A signed bundle and the public key to trust."""
    pytest.importorskip("cryptography")
    public = generate_signing_key(tmp_path / "release.pem")
    Bundle.open(bundle).sign(tmp_path / "release.pem")
    return bundle, public


def edit_manifest(bundle, **changes) -> None:
    """Change a manifest as somebody does who also sees to its digest."""
    document = json.loads((bundle / MANIFEST).read_text())
    del document["sha256"]
    (bundle / MANIFEST).write_bytes(stamped({**document, **changes}))


def test_a_manifest_survives_being_written_and_read(original):
    manifest = Bundle.open(original).manifest
    assert Manifest.from_json(manifest.to_json(), original) == manifest


@pytest.mark.parametrize("offset", [0, 1000, -1])
def test_one_flipped_bit_is_refused(bundle, offset):
    content = bytearray((bundle / "verify.onnx").read_bytes())
    content[offset] ^= 1
    (bundle / "verify.onnx").write_bytes(content)
    with pytest.raises(BundleError, match="verify.onnx .* SHA-256 differs.*export the bundle"):
        Verifier.open(bundle, "cpu")


def test_one_flipped_bit_of_the_manifest_is_refused(original):
    content = (original / MANIFEST).read_bytes()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BundleError, match="again|update coverlock-sdk"):
            Manifest.from_json(bytes(flipped), original)


def test_only_listed_files_are_read_and_only_as_they_were_exported(bundle):
    (bundle / "extra.onnx").write_bytes(b"anything")
    opened = Bundle.open(bundle)
    with pytest.raises(BundleError, match="does not list"):
        opened.read("extra.onnx")
    (bundle / "verify.onnx").write_bytes(b"something else")
    with pytest.raises(BundleError, match="SHA-256 differs"):
        opened.read("verify.onnx")
    (bundle / "verify.onnx").unlink()
    with pytest.raises(BundleError, match="lacks the file verify.onnx"):
        Bundle.open(bundle)


def test_another_schema_asks_for_an_update(bundle):
    edit_manifest(bundle, schema=SCHEMA + 1)
    with pytest.raises(
        BundleError, match=f"another version .schema {SCHEMA + 1}.*update coverlock"
    ):
        Bundle.open(bundle)


NESTED = '{"schema": ' + 100_000 * "["


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1e999}', "\x00", NESTED]
)
def test_a_damaged_manifest_is_refused(bundle, content):
    (bundle / MANIFEST).write_text(content)
    with pytest.raises(BundleError, match="export"):
        Bundle.open(bundle)


@pytest.mark.parametrize("section", [field.name for field in fields(Manifest)])
@pytest.mark.parametrize("value", [[], [1], {"a": 1}, {"a": {"b": []}}, 3, -1, "text", None])
def test_a_section_of_the_wrong_kind_is_one_sentence(bundle, section, value):
    edit_manifest(bundle, **{section: value})
    try:
        Verifier.open(bundle, "cpu").close()
    except CoverLockError as error:
        assert "\n" not in str(error)  # noqa: PT017 (some of these values are harmless)


def test_an_engine_of_the_wrong_kind_is_one_sentence(bundle):
    good = asdict(ENGINE)
    for name, value in (("batches", 3), ("target", "cuda"), ("graph", "../../verify")):
        edit_manifest(bundle, engines=[{**good, name: value}])
        with pytest.raises(BundleError, match=r"engines\[0\]|not the name of a file inside"):
            Bundle.open(bundle)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "..\\outside"])
def test_a_manifest_cannot_name_files_outside_the_bundle(bundle, name):
    edit_manifest(bundle, files={name: "0" * 64})
    with pytest.raises(BundleError, match="not the name of a file inside"):
        Bundle.open(bundle)


def test_a_precision_that_is_not_there_is_an_error_that_says_what_is(bundle):
    with pytest.raises(BundleError, match="in fp32, but not in int8"):
        Verifier.open(bundle, "cpu", settings=Settings(precision="int8"))


def test_a_bundle_that_fails_half_way_leaves_nothing(tmp_path):
    def fail() -> None:
        with building(tmp_path / "new") as folder:
            (folder / "verify.onnx").write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_never_overwritten(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(BundleError, match="exists"), building(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_an_engine_is_added_with_its_digest_and_ends_the_signature(signed):
    bundle, public = signed
    opened = Bundle.open(bundle, trust=public)
    assert opened.signed
    grown = opened.with_engine(b"plan", ENGINE)
    assert grown.read(ENGINE.file) == b"plan"
    assert not grown.signed
    assert Bundle.open(bundle).manifest == grown.manifest
    with pytest.raises(BundleError, match="is not signed"):
        Bundle.open(bundle, trust=public)


def test_a_signed_bundle_opens_for_those_who_trust_its_key(signed):
    bundle, public = signed
    with Verifier.open(bundle, "cpu", trust=public) as verifier:
        assert verifier.bundle.signed


def test_a_bundle_tampered_with_as_a_whole_passes_its_digests_but_not_its_signature(signed):
    bundle, public = signed
    (bundle / "verify.onnx").write_bytes(b"a forger's graph")
    seal(bundle, Manifest.from_json((bundle / MANIFEST).read_bytes(), bundle))
    Bundle.open(bundle)
    with pytest.raises(BundleError, match="altered or signed by somebody else"):
        Bundle.open(bundle, trust=public)


def test_a_damaged_signature_is_refused(signed):
    bundle, public = signed
    (bundle / SIGNATURE).write_bytes(b"short")
    with pytest.raises(BundleError, match="signed by somebody else"):
        Bundle.open(bundle, trust=public)


def test_an_older_bundle_of_a_trusted_signer_is_not_brought_back(signed):
    bundle, public = signed
    private, made = bundle.parent / "release.pem", "2026-11-18T20:06:05Z"
    edit_manifest(bundle, made={"time": made})
    Bundle.open(bundle).sign(private)
    key = public.read_text()
    for since in ("2026-11-18", made, "2025-01-01"):
        public.write_text(f"since: {since}\n{key}")
        assert Bundle.open(bundle, trust=public).signed
    for since in ("2026-11-19", "2026-11-18T20:06:06Z"):
        public.write_text(f"since: {since}\n{key}")
        with pytest.raises(BundleError, match=f"counts since {since}: use a newer bundle"):
            Bundle.open(bundle, trust=public)
    public.write_text(f"since: yesterday\n{key}")
    with pytest.raises(KeyringError, match="'yesterday' in .* is not a time"):
        Bundle.open(bundle, trust=public)


def test_an_open_bundle_is_checked_again_by_whoever_trusts_another_key(signed, tmp_path):
    bundle, public = signed
    stranger = generate_signing_key(tmp_path / "stranger.pem")
    opened = Bundle.open(bundle, trust=public)
    with pytest.raises(BundleError, match="signed by somebody else"):
        Verifier.open(opened, "cpu", trust=stranger)
    with Verifier.open(Bundle.open(bundle), "cpu", trust=public) as verifier:
        assert verifier.bundle.signed


def test_a_damaged_bundle_is_not_signed(bundle, tmp_path):
    pytest.importorskip("cryptography")
    generate_signing_key(tmp_path / "release.pem")
    (bundle / "verify.onnx").write_bytes(b"damaged")
    with pytest.raises(BundleError, match="SHA-256 differs"):
        Bundle.open(bundle).sign(tmp_path / "release.pem")
    assert not (bundle / SIGNATURE).exists()


def test_signing_keys_are_private_and_never_overwritten(tmp_path):
    pytest.importorskip("cryptography")
    generate_signing_key(tmp_path / "release.pem")
    assert (tmp_path / "release.pem").stat().st_mode & 0o077 == 0
    with pytest.raises(KeyringError, match="exists"):
        generate_signing_key(tmp_path / "release.pem")


def test_what_is_not_a_key_is_refused(signed, tmp_path):
    bundle, public = signed
    (tmp_path / "text").write_text("hello")
    for trust, problem in (
        (tmp_path / "text", "PEM"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(CoverLockError, match=problem):
            Bundle.open(bundle, trust=trust)
    with pytest.raises(KeyringError, match="private key"):
        Bundle.open(bundle).sign(public)
