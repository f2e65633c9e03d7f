from datetime import datetime, timedelta

import pytest

from coverlock_plugins.content_credentials import ProvenanceError, credentials
from coverlock_plugins.content_credentials.credentials import Credentials, trust_anchors
from coverlock_sdk.documents import DocumentError
from tests.coverlock_plugins.content_credentials.certificates import (
    credentials_in,
    make_certificates,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("trial"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A signer and an issuer of the same names, with other keys."""
    return make_certificates(tmp_path_factory.mktemp("other"))


def test_documented_certificates_load_and_the_key_is_not_printed(files):
    found = credentials_in(files)
    assert found.algorithm == "es256"
    assert "PRIVATE" not in repr(found)


def test_a_broken_chain_is_refused(files, other, tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_bytes((files / "signer.pem").read_bytes() + (other / "root.pem").read_bytes())
    with pytest.raises(ProvenanceError, match="the chain in .* is broken: .* did not issue"):
        Credentials.load(broken, files / "key.pem")


def test_the_key_of_somebody_else_is_refused(files, other):
    with pytest.raises(ProvenanceError, match="is not the key of the first certificate"):
        Credentials.load(files / "chain.pem", other / "key.pem")


def test_files_of_the_wrong_kind_are_refused(files, tmp_path):
    text = tmp_path / "text.pem"
    text.write_text("hello")
    with pytest.raises(ProvenanceError, match="no certificates"):
        Credentials.load(text, files / "key.pem")
    with pytest.raises(ProvenanceError, match="not an unencrypted private key"):
        Credentials.load(files / "chain.pem", text)
    with pytest.raises(DocumentError, match="does not exist"):
        trust_anchors(tmp_path / "absent.pem")


def test_an_expired_certificate_is_refused(files, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=91)

    monkeypatch.setattr(credentials, "datetime", Later)
    with pytest.raises(ProvenanceError, match="is valid from .* only: get a new one"):
        credentials_in(files)
