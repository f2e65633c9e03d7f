"""Decoder logits of photographs, kept so that an interrupted or repeated run goes on from there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coverlock_bench.ledger import digest, fingerprint
from coverlock_sdk import Watermark
from coverlock_sdk.arrays import Logits
from coverlock_sdk.images.kinds import read
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.progress import progress

CACHE = Path("runs/decoded")
SAVE_EVERY = 100


def decoded_logits(watermark: Watermark, photos: list[Path]) -> Logits:
    """What ``watermark`` decodes from each of ``photos`` as they are: (N, bits)."""
    names = "\n".join(str(photo.resolve()) for photo in photos)
    path = CACHE / f"{watermark.name}-{digest(fingerprint(watermark), names)}.npy"
    done = list(np.load(path)) if path.exists() else []
    rest, networks = photos[len(done) :], Networks(watermark, None)
    for photo in progress(rest, watermark.name):
        done.append(networks.decoded(networks.views([read(photo)]))[0])
        if len(done) % SAVE_EVERY == 0 or len(done) == len(photos):
            CACHE.mkdir(parents=True, exist_ok=True)
            np.save(path, np.stack(done))
    return np.stack(done)
