"""What happens to a signed picture on its way: the manifest goes, and pixels change."""

from __future__ import annotations

import io

from PIL import Image

from coverlock_bench.photos import Picture8

QUALITY = 80


def stripped(picture: Picture8, scale: float = 0.5, quality: int = QUALITY) -> bytes:
    """A picture as a platform hands it on: smaller, JPEG again, and without any manifest."""
    image = Image.fromarray(picture)
    size = (round(image.width * scale), round(image.height * scale))
    file = io.BytesIO()
    image.resize(size, Image.Resampling.LANCZOS).save(file, format="JPEG", quality=quality)
    return file.getvalue()
