"""What the floor on agreement stops: payloads moved between pictures that look alike."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.knowing.codes import Vendor
from coverlock_bench.lock_schemes import SCHEMES
from coverlock_bench.photos import Picture8
from coverlock_bench.text_pages import text_page
from coverlock_sdk.loading import load_hash
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.testing import natural_pictures


def similar_pictures(hash: str, count: int, bits: int, fpr: float) -> dict[str, Any]:
    """Payloads of one picture in another of its kind: accepted without the floor, and with it."""
    image_hash, kinds = load_hash(hash), {"text pages": [text_page(seed) for seed in range(count)]}
    kinds["frames of a template"] = frames(count)
    figures: dict[str, Any] = {}
    for kind, pictures in kinds.items():
        hashed = picture_logits(image_hash, pictures)
        for scheme in SCHEMES:
            vendor = Vendor.of(key_of(scheme), bits, image_hash.calibration, fpr)
            rng, pairs = np.random.default_rng(0), np.array(list(permutations(range(count), 2)))
            released = vendor.release(hashed, "acme", rng)
            payloads, targets = released.payloads[pairs[:, 0]], hashed[pairs[:, 1]]
            verdicts = vendor.verify(payloads, targets, "acme", rng)
            figures.setdefault(kind, {})[scheme] = {
                "no floor": rate(sum(v.p_value <= fpr for v in verdicts), len(verdicts)),
                "floor": rate(sum(v.accepted for v in verdicts), len(verdicts)),
            }
    return figures


def frames(count: int) -> list[Picture8]:
    """One layout with another picture in its middle each: slides, posts, thumbnails."""
    scenes, [layout] = natural_pictures(count, (96, 96), seed=1), natural_pictures(1, seed=2)
    made = []
    for scene in scenes:
        frame = layout.copy()
        frame[80:176, 80:176] = scene
        made.append(frame)
    return made
