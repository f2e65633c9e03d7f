"""The page's sample photos, marked by the watermark that the page is for."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from coverlock_sdk.images.codecs import encode_image, load_image
from coverlock_sdk.locking.coverlock import NoDefense
from coverlock_sdk.locking.locked_watermark import LockedWatermark

IDENTIFIER = "acme-photos"
"""What the samples are marked for."""

FOLDER = Path(__file__).parent / "photos"
PAIRS = (("cat", "chelsea", "cup", "coffee"), ("rocket", "rocket", "cat", "chelsea"))
"""What the marked photo shows and its file; then those of the photo that gets its mark."""

CREDITS = (
    "cat by Stefan van der Walt (CC0), cup by Rachel Michetti, courtesy of Pikolo Espresso Bar "
    "(CC0), rocket by SpaceX (public domain); all as distributed with scikit-image, cropped"
)


@dataclass(frozen=True)
class SamplePair:
    """A photo, marked with and without the lock, and another one to forge."""

    name: str
    cover: Image.Image
    bare: Image.Image
    locked: Image.Image
    target: Image.Image

    def inlined(self) -> dict[str, object]:
        """What the page holds of it: lossless files in base 64."""
        roles = {"cover": self.cover, "bare": self.bare, "locked": self.locked}
        return {
            "name": self.name,
            "pictures": {
                role: base64.b64encode(encode_image(image, ".webp")).decode()
                for role, image in {**roles, "target": self.target}.items()
            },
        }


def sample_pairs(lock: LockedWatermark) -> list[SamplePair]:
    """The sample photos, marked for ``IDENTIFIER``."""
    bare = NoDefense(lock.fpr).protect(lock.watermark)
    pairs = []
    for source, source_file, target, target_file in PAIRS:
        cover = load_image(FOLDER / f"{source_file}.jpg")
        pairs.append(
            SamplePair(
                name=f"from the {source} to the {target}",
                cover=cover,
                bare=bare.embed(cover, IDENTIFIER),
                locked=lock.embed(cover, IDENTIFIER),
                target=load_image(FOLDER / f"{target_file}.jpg"),
            )
        )
    return pairs
