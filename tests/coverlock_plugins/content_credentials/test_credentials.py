import os
import stat

import pytest

from coverlock_plugins.content_credentials.credentials import Credentials, trust_anchors
from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.trial_certificates import make_trial_certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make_trial_certificates(tmp_path_factory.mktemp("trial"))


def test_trial_certificates_load_and_the_key_is_private(files):
    credentials = Credentials.load(files.chain, files.key)
    assert credentials.algorithm == "es256"
    assert "PRIVATE" not in repr(credentials)
    if os.name == "posix":
        assert stat.S_IMODE(files.key.stat().st_mode) == 0o600


def test_a_broken_chain_is_refused(files, tmp_path):
    """The issuer is another one of the same name."""
    other = make_trial_certificates(tmp_path / "other")
    leaf = files.chain.read_bytes().split(b"-----END CERTIFICATE-----\n")[0]
    broken = tmp_path / "broken.pem"
    broken.write_bytes(leaf + b"-----END CERTIFICATE-----\n" + other.root.read_bytes())
    with pytest.raises(ProvenanceError, match="the chain in .* is broken: .* did not issue"):
        Credentials.load(broken, files.key)


def test_the_key_of_somebody_else_is_refused(files, tmp_path):
    other = make_trial_certificates(tmp_path / "other")
    with pytest.raises(ProvenanceError, match="is not the key of the first certificate"):
        Credentials.load(files.chain, other.key)


def test_files_of_the_wrong_kind_are_refused(files, tmp_path):
    text = tmp_path / "text.pem"
    text.write_text("hello")
    with pytest.raises(ProvenanceError, match="no certificates"):
        Credentials.load(text, files.key)
    with pytest.raises(ProvenanceError, match="not an unencrypted private key"):
        Credentials.load(files.chain, text)
    with pytest.raises(ProvenanceError, match="cannot be read"):
        trust_anchors(tmp_path / "absent.pem")


def test_an_expired_certificate_is_refused(tmp_path, monkeypatch):
    from coverlock_plugins.content_credentials import trial_certificates

    monkeypatch.setattr(trial_certificates, "DAYS", -0.01)
    files = make_trial_certificates(tmp_path)
    with pytest.raises(ProvenanceError, match="is valid from .* only: get a new one"):
        Credentials.load(files.chain, files.key)
