"""Mark a photo, verify it, and see a forgery fail: python examples/quickstart.py PHOTO OTHER_PHOTO

Needs the watermark's weights and a key once: coverlock fetch steganogan; coverlock keygen key.json
"""

import sys

import numpy as np
from PIL import Image

from coverlock_sdk import wrap

if len(sys.argv) != 3:
    sys.exit(__doc__)
photo, other = (Image.open(path).convert("RGB").resize((512, 512)) for path in sys.argv[1:])

locked = wrap("steganogan", key="key.json", psnr=42)
marked = locked.embed(photo, "order-4711")
print("marked photo:  ", locked.verify(marked, "order-4711"))
print("wrong order:   ", locked.verify(marked, "order-4712"))
print("unmarked photo:", locked.verify(photo, "order-4711"))

residual = np.asarray(marked, dtype=np.int16) - np.asarray(photo)
forged = np.clip(np.asarray(other) + residual, 0, 255).astype(np.uint8)
print("forged photo:  ", locked.verify(forged, "order-4711"))
