import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("c2pa")
pytest.importorskip("cryptography")

from coverlock_plugins.content_credentials.credentials import trust_anchors
from coverlock_plugins.content_credentials.repository import Entry, ManifestRepository
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner, Signed
from coverlock_sdk import Key
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from tests.coverlock_plugins.content_credentials.certificates import (
    credentials_in,
    make_certificates,
)
from tests.toy_bundle import toy_lock

KEY = Key(bytes(range(32)), id="test")


@dataclass
class Studio:
    """Two signed pictures, their repository, and everything needed to sign more."""

    folder: Path
    lock: LockedWatermark
    repository: ManifestRepository
    signer: PictureSigner
    originals: list[Path]
    signed: list[Signed]

    @property
    def root(self) -> Path:
        """The certificate that leads to the signer."""
        return self.folder / "certificates" / "root.pem"

    @property
    def resolver(self) -> Resolver:
        return Resolver(self.repository, [self.lock], trust_anchors(self.root))

    def entry(self, number: int) -> Entry:
        return self.repository.entry("serial", self.signed[number].serial)


def pixels(path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def jpeg(picture: np.ndarray, quality: int = 90) -> bytes:
    """The picture as a file without any manifest."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="jpeg", quality=quality)
    return file.getvalue()


def transplant(studio: Studio, target: np.ndarray) -> np.ndarray:
    """The mark of the first picture, lifted off it exactly and put onto another."""
    residual = pixels(studio.signed[0].path).astype(int) - pixels(studio.originals[0])
    return np.clip(target + residual, 0, 255).astype(np.uint8)


def make_studio(folder: Path, photos: np.ndarray) -> Studio:
    certificates = make_certificates(folder)
    repository = ManifestRepository(folder / "repository", create=True)
    lock = toy_lock(key=KEY, registry=repository.registry)
    signer = PictureSigner(lock, repository, credentials_in(certificates))
    originals, signed = [], []
    for number, photo in enumerate(photos[:2]):
        original = folder / f"photo-{number}.png"
        Image.fromarray(photo).save(original)
        serial = repository.registry.issue("order")
        originals.append(original)
        signed.append(signer.sign(original, folder / f"signed-{number}.png", serial))
    return Studio(folder, lock, repository, signer, originals, signed)


@pytest.fixture(scope="package")
def studio(tmp_path_factory, photos):
    """One studio for tests that only look."""
    return make_studio(tmp_path_factory.mktemp("studio"), photos)


@pytest.fixture
def own_studio(tmp_path, photos):
    """A studio for tests that break something."""
    return make_studio(tmp_path, photos)
