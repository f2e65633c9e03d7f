"""A transplanted mark leads to a false serial, and with the lock to none.

    python examples/content_credentials.py PHOTO OTHER_PHOTO CERTIFICATES

Marks PHOTO twice, the usual way and with the lock, lifts each mark off it, and puts it onto
OTHER_PHOTO. CERTIFICATES is a folder with chain.pem, key.pem and root.pem, as made in
docs/content-credentials.md. Needs: pip install 'coverlock-sdk[c2pa,torch]'
"""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from coverlock_plugins.content_credentials.credentials import Credentials, trust_anchors
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.signing import PictureSigner
from coverlock_sdk import NoDefense, load_watermark, wrap
from coverlock_sdk.locking.keys import generate_key

SIZE = (512, 512)


def jpeg(pixels: np.ndarray) -> bytes:
    """A picture as a platform hands it on: JPEG, and no manifest."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="jpeg", quality=90)
    return file.getvalue()


def pixels(source) -> np.ndarray:
    return np.asarray(Image.open(source).convert("RGB").resize(SIZE))


def transplant(marked: np.ndarray, original: np.ndarray, target: np.ndarray) -> bytes:
    return jpeg(np.clip(target + (marked.astype(int) - original), 0, 255).astype(np.uint8))


work = Path(tempfile.mkdtemp())
photo, other = work / "photo.png", pixels(sys.argv[2])
Image.fromarray(pixels(sys.argv[1])).save(photo)
certificates = Path(sys.argv[3])
credentials = Credentials.load(certificates / "chain.pem", certificates / "key.pem")

repository = ManifestRepository(work / "repository", create=True)
serial = repository.registry.issue("order-4711")

print("without the lock")
bare = NoDefense().protect(load_watermark("mbrs"))
marked = bare.embed(pixels(photo), serial)
found = bare.identify(jpeg(marked), [serial])
print("  the photo, stripped:  ", found.label or "no serial")
found = bare.identify(transplant(marked, pixels(photo), other), [serial])
print("  another photo, forged:", f"{found.label}, which is false" if found else "no serial")

print("with the lock")
generate_key(work / "key.json")
lock = wrap("mbrs", key=work / "key.json", registry=repository.registry)
signed = PictureSigner(lock, repository, credentials).sign(photo, work / "signed.png", serial)
resolver = Resolver(repository, [lock], trust_anchors(certificates / "root.pem"))
marked = pixels(signed.path)
found = resolver.resolve(jpeg(marked))
print("  the photo, stripped:  ", found.manifest.id if found.manifest else found.reason)
found = resolver.resolve(transplant(marked, pixels(photo), other))
print("  another photo, forged:", found.manifest.id if found.manifest else found.reason)
