"""A transplanted mark leads to a false manifest, and with the lock it does not.

    python examples/content_credentials.py PHOTO OTHER_PHOTO

Signs PHOTO twice, the usual way and with the lock, lifts each mark off it, and puts it onto
OTHER_PHOTO. Needs: pip install 'coverlock-sdk[c2pa,torch]'
"""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from coverlock_bench.provenance.unlocked import UnlockedVendor
from coverlock_sdk import wrap
from coverlock_sdk.locking.keys import generate_key
from coverlock_sdk.provenance.credentials import Credentials
from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.resolving import Resolver
from coverlock_sdk.provenance.signing import PictureSigner
from coverlock_sdk.provenance.trial_certificates import make_trial_certificates

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
files = make_trial_certificates(work / "certificates")
credentials = Credentials.load(files.chain, files.key)

print("without the lock")
vendor = UnlockedVendor("mbrs", credentials, fpr=1e-6)
marked = pixels(io.BytesIO(vendor.sign(photo, "order-4711/000001")))
manifest = vendor.resolve(jpeg(marked))
print("  the photo, stripped:  ", manifest.id if manifest else "no manifest")
manifest = vendor.resolve(transplant(marked, pixels(photo), other))
print("  another photo, forged:", f"{manifest.id}, which is false" if manifest else "no manifest")

print("with the lock")
repository = ManifestRepository(work / "repository", create=True)
generate_key(work / "key.json")
lock = wrap("mbrs", key=work / "key.json")
serial = repository.serials.issue("order-4711")
signed = PictureSigner(lock, repository, credentials).sign(photo, work / "signed.png", serial)
resolver = Resolver(repository, [lock])
marked = pixels(signed.path)
found = resolver.resolve(jpeg(marked))
print("  the photo, stripped:  ", found.manifest.id if found.manifest else found.reason)
found = resolver.resolve(transplant(marked, pixels(photo), other))
print("  another photo, forged:", found.manifest.id if found.manifest else found.reason)
