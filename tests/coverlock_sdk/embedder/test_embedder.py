"""The production embedder marks as the lock does, from a bundle and without PyTorch."""

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import Embedder, Key, Verifier
from coverlock_sdk.errors import BundleError, CoverLockError
from coverlock_sdk.verifier.verifier import Settings
from tests.toy_bundle import toy_lock, write_toy_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("toy") / "bundle", embedding=True)


@pytest.fixture(scope="module")
def embedder(bundle):
    return Embedder.open(bundle, threads=1)


def test_it_marks_as_the_lock_does(embedder, photos):
    ours, theirs = embedder.embed(photos, "alice"), toy_lock().embed(photos, "alice")
    assert all(toy_lock().verify(list(ours), "alice"))
    assert np.abs(ours.astype(int) - theirs).mean() < 1  # a bit near zero may fall either way


def test_what_it_reports_is_what_a_verifier_sees(embedder, bundle, photos):
    marked = embedder.mark(Image.fromarray(photos[0]), "alice")
    with Verifier.open(bundle, "cpu", settings=Settings(threads=1)) as verifier:
        verdict = verifier.verify(marked.picture, "alice")
    assert marked.verdict.accepted
    assert (verdict.matches, verdict.accepted) == (marked.verdict.matches, True)


def test_the_key_of_the_export_is_needed(tmp_path, photos, key):
    bundle = write_toy_bundle(tmp_path / "keyed", key.fingerprint, embedding=True)
    with pytest.raises(BundleError, match="fingerprint"):
        Embedder.open(bundle, key=Key(bytes(32), id="other"))
    marked = Embedder.open(bundle, key=key, threads=1).embed(photos[0], "alice")
    assert toy_lock(key).verify(marked, "alice")


def test_the_quality_aimed_at_is_reached(bundle, photos):
    for psnr in (36, 40):
        marked = Embedder.open(bundle, psnr=psnr, threads=1).mark(photos[1], "alice")
        assert marked.psnr == pytest.approx(psnr, abs=0.3)
    with pytest.raises(CoverLockError, match="400 dB is not a quality"):
        Embedder.open(bundle, psnr=400)


def test_a_bundle_that_cannot_mark_says_why(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    with pytest.raises(BundleError, match=r"cannot mark pictures: it has no embed\.onnx"):
        Embedder.open(bundle)
