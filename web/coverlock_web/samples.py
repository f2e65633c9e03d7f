"""The page's sample photos, marked by the watermark that the page is for."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from PIL import Image

from coverlock_sdk import LockedWatermark, NoDefense
from coverlock_sdk.images.codecs import encode_image, load_image

IDENTIFIER = "acme-photos"
"""What the samples are marked for."""

FOLDER = Path(__file__).parent / "photos"
PAIRS = (("cat", "chelsea", "cup", "coffee"), ("rocket", "rocket", "cat", "chelsea"))
"""What the marked photo shows and its file; then those of the photo that gets its mark."""

CREDITS = (
    "cat by Stefan van der Walt (CC0), cup by Rachel Michetti, courtesy of Pikolo Espresso Bar "
    "(CC0), rocket by SpaceX (public domain); all as distributed with scikit-image, cropped"
)


def sample_pairs(lock: LockedWatermark) -> list[dict[str, Any]]:
    """Photos marked for ``IDENTIFIER`` without the lock and with it, and others to forge.

    A page holds their names, and the pictures as lossless files in base 64.
    """
    bare = NoDefense(lock.fpr).protect(lock.watermark)
    pairs = []
    for source, source_file, target, target_file in PAIRS:
        cover = load_image(FOLDER / f"{source_file}.jpg")
        pictures = {
            "cover": cover,
            "bare": bare.embed(cover, IDENTIFIER),
            "locked": lock.embed(cover, IDENTIFIER),
            "target": load_image(FOLDER / f"{target_file}.jpg"),
        }
        pairs.append(
            {
                "name": f"from the {source} to the {target}",
                "pictures": {role: _inlined(image) for role, image in pictures.items()},
            }
        )
    return pairs


def _inlined(image: Image.Image) -> str:
    return base64.b64encode(encode_image(image, ".webp")).decode()
