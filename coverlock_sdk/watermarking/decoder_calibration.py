"""How far the logits of a watermark's decoder can be trusted, measured on photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coverlock_sdk.contract import Watermark
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import draw_training_distortion
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.progress import progress


def fit_decoder(watermark: Watermark, photos: list[Path], seed: int) -> Calibration:
    """Calibrate a decoder on marked 8-bit photos, as they are and under training distortions."""
    rng, networks = np.random.default_rng(seed), Networks(watermark, None)
    logits, bits = [], []
    for photo in progress(photos):
        payload = rng.integers(0, 2, (1, watermark.bits), dtype=np.uint8)
        cover = Picture(read(photo).to_bytes())
        [residual] = networks.residuals(networks.views([cover]), payload)
        marked = cover.with_residual(residual)
        distorted = Picture(draw_training_distortion(rng)(marked.to_bytes(), rng))
        logits.append(networks.decoded(networks.views([marked, distorted])))
        bits.append(np.repeat(payload, 2, axis=0))
    return Calibration.fit(np.concatenate(logits), np.concatenate(bits))
