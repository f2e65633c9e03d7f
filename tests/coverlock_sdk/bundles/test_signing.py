"""Who may sign bundles: one of several keys."""

import shutil
import warnings

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk import Embedder, Verifier
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.signing import generate_signing_key
from coverlock_sdk.cli import build_cli
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
    Bundle.open(folder).sign(keys[0].with_suffix(".pem"))
    return folder


def run(*arguments):
    return CliRunner().invoke(build_cli(), [str(argument) for argument in arguments])


def test_any_of_several_keys_may_have_signed(bundle, keys):
    old, new = keys
    assert Bundle.open(bundle, trust=[new, old]).signed
    with pytest.raises(BundleError, match="signed by somebody else"):
        Bundle.open(bundle, trust=[new])
    with pytest.raises(KeyringError, match="nobody is trusted"):
        Bundle.open(bundle, trust=[])


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


def test_a_key_of_another_kind_is_refused(bundle, tmp_path):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key, pem = ec.generate_private_key(ec.SECP256R1()), form.Encoding.PEM
    for protection in (form.NoEncryption(), form.BestAvailableEncryption(b"secret")):
        secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, protection)
        (tmp_path / "curve.pem").write_bytes(secret)
        with pytest.raises(KeyringError, match="not an Ed25519 private key"):
            Bundle.open(bundle).sign(tmp_path / "curve.pem")
    (tmp_path / "curve.pub").write_bytes(
        key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(KeyringError, match="curve.pub is not an Ed25519 public key"):
        Bundle.open(bundle, trust=tmp_path / "curve.pub")
