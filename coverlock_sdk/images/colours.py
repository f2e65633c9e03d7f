"""What "the picture" is: the pixels that a viewer shows, in sRGB.

Embedding, verification and the service read pictures through here, and the web page follows the
same rules with the browser's own decoder. A picture that two viewers would show differently is
refused, because a verdict on one view would be mistaken for a verdict on the other.

A colour profile decides what a viewer shows, so a strange one can show a picture that nobody
marked. Pictures may have the profiles that cameras, phones and editors write: three primaries, and
tone curves close to a power. CMYK is refused, because its colours depend on tables.
"""

from __future__ import annotations

import io
import struct
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageCms
from PIL.Image import Image as PilImage

from coverlock_sdk.arrays import AnyArray, Images
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.picture import LUMA, Picture

ALIKE = 0.8
"""The least likeness of two views of one picture.

Among 1,000 COCO photos, read as Display P3, Adobe RGB or ProPhoto RGB, the lowest likeness was
0.98, 0.91 and 0.85. In 20,000 pairs of different photos, the highest was 0.16.
"""

_SIDE, _BLOCK = 128, 8
_NOISE = 1e-4  # variance, in squares of the range from black to white, that nobody sees


def shown(image: PilImage) -> PilImage:
    """Convert an upright ``image`` to what viewers show: L, LA, RGB, RGBA or 16-bit grey in sRGB.

    A picture in another colour space gets the profile of sRGB; others keep their own.
    """
    plain = _plain_mode(image)
    content = plain.info.get("icc_profile")
    if not content:
        _require_usual_gamma(plain.info)
        return plain
    profile = open_profile(content)
    if plain.mode.startswith("I"):
        plain = Image.fromarray((np.asarray(plain) // 257).clip(0, 255).astype(np.uint8))
        plain.info = dict(image.info)
    grey = plain.mode in ("L", "LA")
    fits = profile.space == b"RGB " or (profile.space == b"GRAY" and grey)  # as for viewers
    if not fits or profile.is_srgb:
        return plain
    seen = profile.applied(plain)
    if likeness(_small(seen), _small(plain)) < ALIKE:
        raise PictureError(
            f"the picture looks different where its colour profile is ignored: {_ADVICE}"
        )
    seen.info = {**plain.info, "icc_profile": _srgb_profile()}
    return seen


def require_opaque(picture: Picture) -> Picture:
    """Refuse a picture that looks different over white and over black."""
    if picture.alpha is None:
        return picture
    over_white = np.tensordot(LUMA, picture.view((_SIDE, _SIDE)), axes=1)
    opacity = Picture(picture.alpha).view((_SIDE, _SIDE))[0]
    if opacity.mean() < 0.5:
        raise PictureError("the picture is mostly transparent: lay it over a background first")
    if likeness(over_white, over_white - (1 - opacity)) < ALIKE:
        raise PictureError(
            "the picture is transparent in places, so it looks different over white and over "
            "black: lay it over a background first"
        )
    return picture


def likeness(one: Images, other: Images) -> float:
    """How similar two grey views (128, 128) are, from about 0 to 1: the lower of two correlations.

    One compares the means of 8 x 8 blocks, the other compares the blocks without their means.
    """
    blocks = [
        view.reshape(_SIDE // _BLOCK, _BLOCK, _SIDE // _BLOCK, _BLOCK) for view in (one, other)
    ]
    means = [part.mean(axis=(1, 3), keepdims=True) for part in blocks]
    fine = [part - mean for part, mean in zip(blocks, means, strict=True)]
    coarse = [mean - mean.mean() for mean in means]
    return min(_agreement(*fine), _agreement(*coarse))


def _agreement(a: Images, b: Images) -> float:
    noise = _NOISE * a.size
    return float((2 * np.vdot(a, b) + noise) / (np.vdot(a, a) + np.vdot(b, b) + noise))


def _small(image: PilImage) -> Images:
    grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    return np.asarray(grey, dtype=np.float32) / np.float32(255)


def _plain_mode(image: PilImage) -> PilImage:
    """Bring an image to L, LA, RGB, RGBA or 16-bit grey without losing what can be seen."""
    if image.mode == "F":
        raise PictureError("a floating-point (mode F) image has no defined white: convert it first")
    if image.mode == "CMYK":
        raise PictureError("CMYK colours depend on the viewer: convert it to sRGB first")
    if "transparency" in image.info or image.mode in ("PA", "La", "RGBa"):
        if image.mode.startswith("I"):
            raise PictureError("16-bit grey with a transparent level is not read: use 8 bits")
        return image.convert("LA" if image.mode in ("1", "L", "La") else "RGBA")
    if image.mode in ("L", "LA", "RGB", "RGBA") or image.mode.startswith("I"):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


@lru_cache(maxsize=1)
def _srgb_profile() -> bytes:
    content = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    date = struct.pack(">6H", 2000, 1, 1, 0, 0, 0)  # so that the same picture gives the same file
    return content[:24] + date + content[36:]


EXPONENTS = (1.3, 2.8)
"""Limits on the power of tone curves: BT.709 begins at 1.4 near black, L* ends at 2.6."""
WHERE = (0.02, 0.98)
"""Range in which tone curves are compared with powers, which all meet at both ends."""
SAME = 2
"""How many levels a profile may move colours and still count as sRGB."""

SRGB_PRIMARIES = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
"""Chromaticities (x, y) of white, red, green and blue, in the order of PNG's cHRM."""

_TABLES = {b"A2B0", b"A2B1", b"A2B2", b"D2B0", b"D2B1", b"D2B2", b"D2B3"}
_PARAMETERS = {0: 1, 3: 5, 4: 7}
_ADVICE = "convert the picture to sRGB first"


class Profile:
    """An allowed colour profile, and what it does to pixels."""

    def __init__(self, content: bytes) -> None:
        try:
            self.space = content[16:20]
            tags = _tags(content)
            self._profile = ImageCms.ImageCmsProfile(io.BytesIO(content))
        except (struct.error, OSError):
            raise PictureError(f"the picture's colour profile is damaged: {_ADVICE}") from None
        names = {b"RGB ": (b"rTRC", b"gTRC", b"bTRC"), b"GRAY": (b"kTRC",)}.get(self.space, ())
        if names and _TABLES & tags.keys():  # which viewers read differently
            raise PictureError(f"the picture's colour profile uses tables: {_ADVICE}")
        if not all(name in tags and _rises_like_a_power(tags[name]) for name in names):
            raise PictureError(
                f"the picture's colour profile changes its tones beyond recognition: {_ADVICE}"
            )

    @cached_property
    def is_srgb(self) -> bool:
        """Whether it leaves colours where they are."""
        if self.space != b"RGB ":
            return False
        steps = np.linspace(0, 255, 9).round().astype(np.uint8)
        colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(27, 27, 3)
        seen = np.asarray(self.applied(Image.fromarray(colours)))
        return int(np.abs(seen.astype(int) - colours).max()) <= SAME

    def applied(self, image: PilImage) -> PilImage:
        """``image`` in sRGB, as it is shown; alpha stays as it is, and grey stays grey."""
        if self.space == b"GRAY":
            seen = self._transformed(image.getchannel("L"), "RGB").getchannel("G")
            if image.mode == "LA":
                seen.putalpha(image.getchannel("A"))
            return seen
        colour = image.convert("RGBA" if image.mode.endswith("A") else "RGB")
        return self._transformed(colour, colour.mode)

    def _transformed(self, image: PilImage, mode: str) -> PilImage:
        srgb = ImageCms.createProfile("sRGB")
        try:
            transform = ImageCms.buildTransform(self._profile, srgb, image.mode, mode)
            seen = ImageCms.applyTransform(image, transform)
        except ImageCms.PyCMSError:
            raise PictureError(f"the picture's colour profile is damaged: {_ADVICE}") from None
        assert seen is not None
        return seen


@lru_cache(maxsize=16)
def open_profile(content: bytes) -> Profile:
    """Open a profile; results are cached."""
    return Profile(content)


def _require_usual_gamma(info: dict[Any, Any]) -> None:
    """Refuse PNG files whose gamma or primaries are not those of sRGB."""
    if "srgb" in info or not info.get("gamma"):
        return
    primaries = info.get("chromaticity", SRGB_PRIMARIES)
    if abs(info["gamma"] - 1 / 2.2) > 1e-3 or not np.allclose(primaries, SRGB_PRIMARIES, atol=2e-3):
        raise PictureError(f"the picture has a gamma or primaries of its own: {_ADVICE}")


def _tags(content: bytes) -> dict[bytes, bytes]:
    (count,) = struct.unpack_from(">I", content, 128)
    entries = [struct.unpack_from(">4sII", content, 132 + 12 * i) for i in range(min(count, 100))]
    return {name: content[start : start + length] for name, start, length in entries}


def _rises_like_a_power(tag: bytes) -> bool:
    """Whether a tone curve never falls, and lies between the ``EXPONENTS``."""
    try:
        inputs, outputs = _curve(tag)
    except (struct.error, ValueError, KeyError):
        return False
    if not np.isfinite(outputs).all() or (np.diff(outputs) < 0).any():
        return False
    inner = (inputs > WHERE[0]) & (inputs < WHERE[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.log(outputs[inner]) / np.log(inputs[inner])
    return bool(((exponents >= EXPONENTS[0]) & (exponents <= EXPONENTS[1])).all())


def _curve(tag: bytes) -> tuple[AnyArray, AnyArray]:
    """Samples of a tone curve: all that a table has, or 256 of a formula."""
    kind, count = struct.unpack_from(">4s4xI", tag)
    inputs = np.linspace(0, 1, 256)
    if kind == b"curv" and count == 1:
        return inputs, inputs ** (struct.unpack_from(">H", tag, 12)[0] / 256)
    if kind == b"curv" and count > 2:
        return np.linspace(0, 1, count), np.frombuffer(tag, ">u2", count, 12) / 65535.0
    if kind != b"para":
        raise ValueError
    form = count >> 16
    numbers = list(np.frombuffer(tag, ">i4", _PARAMETERS[form], 12) / 65536.0)
    power, a, b, c, d, e, f = numbers + [1, 0, 0, 0, 0, 0][len(numbers) - 1 :]
    with np.errstate(invalid="ignore"):
        return inputs, np.where(inputs >= d, (a * inputs + b) ** power + e, c * inputs + f)
