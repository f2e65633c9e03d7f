"""Who may sign bundles: several keys, revoked ones, encrypted ones, and OpenSSF's format."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk import Embedder, Verifier
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.openssf import MODEL_SIGNATURE
from coverlock_sdk.bundles.signatures import SIGNATURE
from coverlock_sdk.bundles.signing import generate_signing_key, is_encrypted, sign_bundle
from coverlock_sdk.bundles.trust import Trust
from coverlock_sdk.cli import build_cli
from coverlock_sdk.cli.passphrases import PASSPHRASE_VARIABLE
from coverlock_sdk.errors import BundleError, KeyringError, UntrustedBundleWarning
from tests.toy_bundle import write_toy_bundle

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("bundles") / "toy", embedding=True).path


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The public keys of an old and a new release key; private ones lie beside them."""
    folder = tmp_path_factory.mktemp("keys")
    return [generate_signing_key(folder / f"{name}.pem") for name in ("old", "new")]


@pytest.fixture
def bundle(original, keys, tmp_path):
    """A bundle that the old key signed."""
    folder = shutil.copytree(original, tmp_path / "bundle")
    sign_bundle(folder, keys[0].with_suffix(".pem"))
    return folder


def run(*arguments):
    return CliRunner().invoke(build_cli(), [str(argument) for argument in arguments])


def test_any_of_several_keys_may_have_signed(bundle, keys):
    old, new = keys
    assert Bundle.open(bundle, trust=[new, old]).signed
    assert Bundle.open(bundle, trust=(Trust.load(old).keys[0].key, new)).signed
    with pytest.raises(BundleError, match="signed by somebody else"):
        Bundle.open(bundle, trust=[new])
    with pytest.raises(KeyringError, match="nobody is trusted"):
        Bundle.open(bundle, trust=[])


def test_a_key_is_rotated_and_then_revoked_with_a_trust_file(bundle, keys, tmp_path):
    old, new = keys
    file = tmp_path / "trust.json"
    assert run("trust", file, "--add", old, "--add", new).exit_code == 0
    assert Bundle.open(bundle, trust=file).signed
    assert run("trust", file, "--revoke", old).exit_code == 0
    with pytest.raises(BundleError, match=r"the key 'old' \(\w{16}\), which was revoked on 20"):
        Bundle.open(bundle, trust=file)
    sign_bundle(bundle, new.with_suffix(".pem"))
    assert Bundle.open(bundle, trust=file).signed
    shown = json.loads(run("trust", file, "--json").stdout)["keys"]
    assert [(key["name"], bool(key["revoked"])) for key in shown] == [("old", True), ("new", False)]


def test_a_revoked_key_is_refused_even_if_it_is_named(bundle, keys, tmp_path):
    Trust(()).revoking(Trust.load(keys[0]).keys[0]).save(tmp_path / "revoked.json")
    with pytest.raises(BundleError, match="revoked"):
        Bundle.open(bundle, trust=[keys[0], tmp_path / "revoked.json"])
    again = run("trust", tmp_path / "revoked.json", "--add", keys[0])
    assert again.exit_code == 2
    assert "was revoked on" in again.stderr


def test_two_keys_of_one_name_are_not_mixed_up(keys, tmp_path):
    file = tmp_path / "trust.json"
    other = generate_signing_key(tmp_path / "old.pem")
    assert run("trust", file, "--add", keys[0], "--add", keys[0]).exit_code == 0
    answer = run("trust", file, "--add", other)
    assert (answer.exit_code, len(Trust.load(file).keys)) == (2, 1)
    assert "another key is called 'old'" in answer.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"coverlock_trust": 2, "keys": []}', "newer version"),
        ('{"coverlock_trust": 1, "keys": [{"name": "a"}]}', "is damaged"),
        ('{"coverlock_trust": 1, "keys": [{"name": "a", "public_key": "x"}]}', "is damaged"),
        ("{}", "neither a public key"),
        ("", "neither a public key"),
    ],
)
def test_what_is_not_a_trust_file_is_refused(bundle, tmp_path, content, problem):
    (tmp_path / "trust.json").write_text(content)
    with pytest.raises(KeyringError, match=problem):
        Bundle.open(bundle, trust=tmp_path / "trust.json")


def test_opening_without_trust_warns_unless_anybody_is_trusted(bundle, keys):
    openers = (
        lambda **trust: Verifier.open(bundle, "cpu", **trust).close(),
        lambda **trust: Embedder.open(bundle, **trust),
    )
    for opener in openers:
        with pytest.warns(UntrustedBundleWarning, match="without checking who made it") as told:
            opener()
        assert [warning.filename for warning in told] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opener(trust="any")
            opener(trust=keys[0])


def test_the_command_line_takes_several_keys_or_anybody(bundle, keys, photo_file):
    arguments = ("verify", photo_file, "--bundle", bundle, "--id", "a", "--runtime", "cpu")
    old, new = (("--trust", key) for key in keys)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrustedBundleWarning)
        assert run(*arguments, *old, *new).exit_code == 1
        assert run(*arguments, "--trust", "any").exit_code == 1
        assert run(*arguments, "--trust", "any", "--workers", 1).exit_code == 1
    for more in ((), ("--workers", 1)):
        with pytest.warns(UntrustedBundleWarning) as told:
            assert run(*arguments, *more).exit_code == 1
        assert len(told) == 1
    assert "signed by somebody else" in run(*arguments, *new).stderr
    assert run(*arguments, *new, "--trust", "any").exit_code == 2


@pytest.fixture
def photo_file(tmp_path):
    Image.new("RGB", (128, 128), "grey").save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_a_signing_key_can_be_encrypted(original, tmp_path, monkeypatch):
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    bundle, key = shutil.copytree(original, tmp_path / "bundle"), tmp_path / "release.pem"
    (tmp_path / "secret").write_text("correct horse\n")
    secret = ("--passphrase-file", tmp_path / "secret")
    made = run("sign", bundle, "--key", key, "--new-key", "--encrypt", *secret)
    assert made.exit_code == 0, made.output
    assert is_encrypted(key)
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in key.read_bytes()
    assert Bundle.open(bundle, trust=key.with_suffix(".pub")).signed
    assert "COVERLOCK_SIGNING_PASSPHRASE" in run("sign", bundle, "--key", key).stderr
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "wrong")
    assert "cannot be decrypted with this passphrase" in run("sign", bundle, "--key", key).stderr
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "correct horse")
    assert run("sign", bundle, "--key", key).exit_code == 0
    with pytest.raises(KeyringError, match="is encrypted"):
        sign_bundle(bundle, key)


def test_a_passphrase_that_does_nothing_is_refused(bundle, keys, tmp_path):
    (tmp_path / "secret").write_text("")
    secret = ("--passphrase-file", tmp_path / "secret")
    key = keys[0].with_suffix(".pem")
    assert "does nothing" in run("sign", bundle, "--key", key, *secret).stderr
    assert "does nothing" in run("sign", bundle, "--key", key, "--encrypt").stderr
    new = ("sign", bundle, "--key", tmp_path / "n.pem", "--new-key", "--encrypt", *secret)
    assert "an empty passphrase" in run(*new).stderr
    assert not (tmp_path / "n.pem").exists()


def test_the_format_of_openssf_signs_and_verifies(original, keys, tmp_path):
    pytest.importorskip("model_signing")
    bundle, key = shutil.copytree(original, tmp_path / "bundle"), tmp_path / "curve.pem"
    made = run("sign", bundle, "--key", key, "--new-key", "--format", "model-signing")
    assert made.exit_code == 0, made.output
    moved, public = bundle.rename(tmp_path / "moved"), key.with_suffix(".pub")
    assert Bundle.open(moved, trust=public).signed
    sign_bundle(moved, keys[0].with_suffix(".pem"))  # both signatures live side by side
    for trust in (public, keys[0], [public, keys[1]]):
        assert Bundle.open(moved, trust=trust).signed
    (moved / SIGNATURE).unlink()
    with pytest.raises(BundleError, match="signed by somebody else"):
        Bundle.open(moved, trust=keys[0])
    (moved / "more").write_text("x")
    with pytest.raises(BundleError, match="altered"):
        Bundle.open(moved, trust=public)
    (moved / "more").unlink()
    (moved / MODEL_SIGNATURE).write_bytes(b"{}")
    with pytest.raises(BundleError, match="altered"):
        Bundle.open(moved, trust=public)


def test_each_format_has_its_kind_of_key(bundle, keys, tmp_path):
    curve = generate_signing_key(tmp_path / "curve.pem", format="model-signing")
    with pytest.raises(KeyringError, match="needs"):
        sign_bundle(bundle, curve.with_suffix(".pem"))
    with pytest.raises(KeyringError, match="elliptic curve"):
        sign_bundle(bundle, keys[0].with_suffix(".pem"), format="model-signing")
