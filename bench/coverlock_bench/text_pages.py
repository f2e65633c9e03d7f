"""Pages of text: pictures that look alike to a hash that was trained on photos."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from coverlock_bench.photos import Picture8

SIDE = 512
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def text_page(seed: int) -> Picture8:
    """A page of random words, black on white."""
    rng = np.random.default_rng(seed)
    page = Image.new("RGB", (SIDE, SIDE), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(16)
    for top in range(24, SIDE - 32, 22):
        words = ["".join(rng.choice(list(LETTERS), rng.integers(2, 9))) for _ in range(9)]
        draw.text((24, top), " ".join(words)[:52], fill="black", font=font)
    return np.asarray(page)
