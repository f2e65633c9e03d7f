import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_plugins.content_credentials.credentials import Credentials, trust_anchors
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner, Signed
from coverlock_plugins.content_credentials.trial_certificates import (
    TrialFiles,
    make_trial_certificates,
)
from coverlock_sdk import Key
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from tests.toy_bundle import toy_lock

pytest.importorskip("c2pa")
pytest.importorskip("cryptography")

KEY = Key(bytes(range(32)), id="test")


@dataclass
class Studio:
    """Two signed pictures, their repository, and everything needed to sign more."""

    folder: Path
    files: TrialFiles
    lock: LockedWatermark
    repository: ManifestRepository
    signer: PictureSigner
    originals: list[Path]
    signed: list[Signed]

    @property
    def trust(self) -> bytes:
        return trust_anchors(self.files.root)

    @property
    def resolver(self) -> Resolver:
        return Resolver(self.repository, [self.lock], self.trust)


def pixels(path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def jpeg(picture: np.ndarray, quality: int = 90) -> bytes:
    """The picture as a file without any manifest."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="jpeg", quality=quality)
    return file.getvalue()


def make_studio(folder: Path, photos: np.ndarray) -> Studio:
    files = make_trial_certificates(folder / "certificates")
    repository = ManifestRepository(folder / "repository", create=True)
    lock = toy_lock(key=KEY, registry=repository.registry)
    signer = PictureSigner(lock, repository, Credentials.load(files.chain, files.key))
    originals, signed = [], []
    for number, photo in enumerate(photos[:2]):
        original = folder / f"photo-{number}.png"
        Image.fromarray(photo).save(original)
        serial = repository.registry.issue("order")
        originals.append(original)
        signed.append(signer.sign(original, folder / f"signed-{number}.png", serial))
    return Studio(folder, files, lock, repository, signer, originals, signed)


@pytest.fixture(scope="module")
def studio(tmp_path_factory, photos):
    """One studio for tests that only look."""
    return make_studio(tmp_path_factory.mktemp("studio"), photos)


@pytest.fixture
def own_studio(tmp_path, photos):
    """A studio for tests that break something."""
    return make_studio(tmp_path, photos)


@pytest.fixture
def third(studio, photos, tmp_path):
    """A photo that nobody signed, and a serial that nobody uses."""
    original = tmp_path / "third.png"
    Image.fromarray(photos[2]).save(original)
    return original, "elsewhere/1"
