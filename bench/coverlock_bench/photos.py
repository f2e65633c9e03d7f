"""Photos to work on: a folder that the user names, or a few that come with scikit-image."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.folders import pictures_in
from coverlock_sdk.models.assets import Asset

Picture8 = npt.NDArray[np.uint8]

DEMO_PHOTOS = Asset(
    name="photos",
    project="scikit-image",
    # The wheels of all platforms hold the same photos, and it is only unzipped.
    wheel="scikit_image-0.26.0-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
    sha256="74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    members=tuple(
        f"skimage/data/{name}"
        for name in (
            "astronaut.png",
            "chelsea.png",
            "coffee.png",
            "hubble_deep_field.jpg",
            "motorcycle_left.png",
            "rocket.jpg",
        )
    ),
    description="six photographs that scikit-image ships (its documentation names their sources)",
)


def find_photos(folder: Path | None) -> list[Path]:
    """The photographs of ``folder``, or the demo's own, which must have been fetched."""
    return pictures_in(folder or DEMO_PHOTOS.locate())


def load_squares(photos: list[Path], side: int) -> list[Picture8]:
    """The middle square of each photograph, ``side`` pixels wide, as 8-bit RGB."""
    squares = []
    for photo in photos:
        pixels = read(photo).to_bytes()
        edge = min(pixels.shape[:2])
        top, left = (pixels.shape[0] - edge) // 2, (pixels.shape[1] - edge) // 2
        middle = read(np.ascontiguousarray(pixels[top : top + edge, left : left + edge]))
        squares.append(to_8_bit(middle.view((side, side))))
    return squares


def jpeg_files(photos: list[Path], count: int, side: int) -> tuple[bytes, ...]:
    """``count`` JPEG files of ``side`` x ``side`` pixels; photos repeat if there are too few."""
    squares = load_squares(photos[:count], side)
    return tuple(jpeg_file(squares[index % len(squares)]) for index in range(count))


def jpeg_file(picture: Picture8) -> bytes:
    """A JPEG file as a camera might write it."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="jpeg", quality=90)
    return file.getvalue()


def to_8_bit(image: npt.NDArray[np.float32]) -> Picture8:
    """A float picture (3, H, W) in [0, 1] as it is saved: 8-bit RGB (H, W, 3)."""
    rounded = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(rounded, 0, -1))


def to_float(picture: Picture8) -> npt.NDArray[np.float32]:
    """An 8-bit picture (H, W, 3) as the networks see it: (3, H, W) in [0, 1]."""
    return np.divide(np.moveaxis(picture, -1, 0), 255, dtype=np.float32)
