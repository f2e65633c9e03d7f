"""Files on other people's servers: only with the right digest, and never half."""

import hashlib

import pytest

from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.assets import PublishedFile, PublishedFiles

CONTENT = b"weights" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    file = tmp_path / "encoder_Q.onnx"
    file.write_bytes(CONTENT)
    return file


def published(address: str, sha256: str | None) -> PublishedFiles:
    return PublishedFiles(
        "tiny", (PublishedFile("encoder.onnx", "encoder_Q.onnx", address, sha256),), "a tiny model"
    )


def test_a_file_with_the_pinned_digest_is_kept(served):
    model, seen = published(served.as_uri(), DIGEST), []
    assert not model.is_present
    folder = model.fetch(lambda done, total: seen.append((done, total)))
    assert (folder / "encoder.onnx").read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert model.is_present
    assert model.locate() == folder
    assert model.card() == {"sha256": {"encoder.onnx": DIGEST}, "as_published": True}


def test_a_file_with_another_digest_is_refused(served):
    model = published(served.as_uri(), "0" * 64)
    with pytest.raises(CorruptModelError, match="its SHA-256 differs"):
        model.fetch()
    assert not model.is_present


def test_without_a_digest_nothing_is_fetched(served):
    model = published(served.as_uri(), None)
    with pytest.raises(MissingModelError, match="coverlock import tiny encoder_Q.onnx"):
        model.fetch()
    with pytest.raises(MissingModelError, match="'coverlock import tiny encoder_Q.onnx'"):
        model.locate()


def test_a_file_may_be_brought(served):
    model = published("https://example.org/model", None)
    model.keep("encoder.onnx", b"mine")
    assert model.is_present
    assert model.card()["as_published"] is False
