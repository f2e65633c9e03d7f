"""What "the picture" is: the pixels that a viewer shows, in sRGB.

Embedding, verification and the service read pictures through here, and the web page follows the
same rules with the browser's own decoder. A picture that two viewers would show differently is
refused, because a verdict on one would be taken for a verdict on the other.

A colour profile decides what a viewer shows, so a wild one can show a picture that nobody marked.
Pictures may bring what cameras, phones and editors write: three primaries, and tone curves that
rise about as a power does. CMYK needs tables, so those are judged by what they show.
"""

from __future__ import annotations

import io
import struct
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.arrays import AnyArray, Images
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.picture import LUMA, Picture

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


ALIKE = 0.8
"""Likeness of two views of one picture, at least.

Of 1,000 COCO photos, each taken for Display P3, Adobe RGB or ProPhoto RGB, the least alike was
left with 0.98, 0.91 and 0.85. In 20,000 pairs of different ones, none was more than 0.16 alike.
"""
MOSTLY = 0.5
"""Mean opacity below which a picture is mostly transparent."""

_SIDE, _BLOCK = 128, 8
_NOISE = 1e-4  # variance, in squares of the range from black to white, that nobody sees
_COLOUR_INFO = ("icc_profile", "gamma", "chromaticity", "srgb", "cicp")


def shown(image: PilImage) -> PilImage:
    """An upright ``image`` as viewers show it, in sRGB: L, LA, RGB, RGBA or 16-bit grey.

    A picture of another colour space leaves with the profile of sRGB; others keep what they have.
    """
    plain = _plain_mode(image)
    content = declared_profile(plain)
    profile = open_profile(content) if content else None
    if profile is not None and plain.mode.startswith("I"):
        plain = _at_eight_bits(plain)
    if profile is None or not profile.fits(plain.mode) or profile.is_srgb:
        return plain.convert("RGB") if plain.mode == "CMYK" else plain
    others = [_small(plain)]
    if plain.mode == "CMYK":
        others.append(_small(profile.applied(plain, 1)))  # viewers choose either intent
    seen = profile.applied(plain)
    if min(likeness(_small(seen), other) for other in others) < ALIKE:
        raise PictureError(
            "the picture looks different where its colour profile is ignored: "
            "convert it to sRGB first"
        )
    seen.info = {key: value for key, value in plain.info.items() if key not in _COLOUR_INFO}
    seen.info["icc_profile"] = _srgb_profile()
    return seen


def require_opaque(picture: Picture) -> Picture:
    """Refuse a picture that looks different over white and over black."""
    if picture.alpha is None:
        return picture
    over_white = np.tensordot(LUMA, picture.view((_SIDE, _SIDE)), axes=1)
    opacity = Picture(picture.alpha).view((_SIDE, _SIDE))[0]
    if opacity.mean() < MOSTLY:
        raise PictureError("the picture is mostly transparent: lay it over a background first")
    if likeness(over_white, over_white - (1 - opacity)) < ALIKE:
        raise PictureError(
            "the picture is transparent in places, so it looks different over white and over "
            "black: lay it over a background first"
        )
    return picture


def likeness(one: Images, other: Images) -> float:
    """How alike two grey views (128, 128) are, in what is coarse and in what is fine: the lower.

    Fine is what remains of blocks of 8 x 8 without their mean, and coarse is those means. Overall
    brightness does not count. Equal views are 1, unrelated ones about 0.
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
    from PIL import Image

    opaque = image.convert("RGB") if image.mode == "CMYK" else image
    grey = opaque.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    return np.asarray(grey, dtype=np.float32) / np.float32(255)


def _plain_mode(image: PilImage) -> PilImage:
    """Bring an image to L, LA, RGB, RGBA, CMYK or 16-bit grey without losing what can be seen."""
    if image.mode == "F":
        raise PictureError("a floating-point (mode F) image has no defined white: convert it first")
    if "transparency" in image.info or image.mode in ("PA", "La", "RGBa"):
        if image.mode.startswith("I"):
            raise PictureError("16-bit grey with a transparent level is not read: use 8 bits")
        return image.convert("LA" if image.mode in ("1", "L", "La") else "RGBA")
    if image.mode in ("L", "LA", "RGB", "RGBA", "CMYK") or image.mode.startswith("I"):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _at_eight_bits(image: PilImage) -> PilImage:
    from PIL import Image

    levels = (np.asarray(image) // 257).clip(0, 255).astype(np.uint8)
    grey = Image.fromarray(levels)
    grey.info = dict(image.info)
    return grey


@lru_cache(maxsize=1)
def _srgb_profile() -> bytes:
    from PIL import ImageCms

    content = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    date = struct.pack(">6H", 2000, 1, 1, 0, 0, 0)  # so that the same picture gives the same file
    return content[:24] + date + content[36:]


EXPONENTS = (1.3, 2.8)
"""Powers between which tone curves stay: BT.709 begins at 1.4 near black, L* ends at 2.6."""
WHERE = (0.02, 0.98)
"""Where tone curves are compared with powers; at either end all powers meet."""
SAME = 2
"""Levels by which a profile may move colours and still be called sRGB."""

SRGB_PRIMARIES = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
P3_PRIMARIES = (0.3127, 0.3290, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060)
"""Chromaticities (x, y) of white, red, green and blue, in the order of PNG's cHRM."""
CODED_PRIMARIES = {
    5: (0.3127, 0.3290, 0.64, 0.33, 0.29, 0.60, 0.15, 0.06),
    6: (0.3127, 0.3290, 0.630, 0.340, 0.310, 0.595, 0.155, 0.070),
    12: P3_PRIMARIES,
}
"""The same by code point, for those that viewers tell from sRGB: old television and Display P3."""
SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)

_D50 = np.array([0.9642, 1.0, 0.8249])
_BRADFORD = np.array(
    [[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]]
)
_TABLES = {b"A2B0", b"A2B1", b"A2B2", b"D2B0", b"D2B1", b"D2B2", b"D2B3"}
_PARAMETERS = {0: 1, 3: 5, 4: 7}
_ADVICE = "convert the picture to sRGB first"


class Profile:
    """A profile that a picture may bring, and what it does to pixels."""

    def __init__(self, content: bytes) -> None:
        from PIL import ImageCms

        try:
            self.space = content[16:20]
            self._tags = _tags(content)
            self._profile = ImageCms.ImageCmsProfile(io.BytesIO(content))
        except (struct.error, OSError):
            raise PictureError(f"the picture's colour profile is damaged: {_ADVICE}") from None
        if self.space in (b"RGB ", b"GRAY"):
            self._require_plain_curves()
        self._transforms: dict[tuple[str, int], Any] = {}

    def fits(self, mode: str) -> bool:
        """Whether viewers apply it to a picture of this mode; they leave others as they are."""
        grey = ("L", "LA")
        modes = {b"RGB ": (*grey, "RGB", "RGBA"), b"GRAY": grey, b"CMYK": ("CMYK",)}
        return mode in modes.get(self.space, ())

    @cached_property
    def is_srgb(self) -> bool:
        """Whether it leaves colours where they are."""
        from PIL import Image

        if self.space != b"RGB ":
            return False
        steps = np.linspace(0, 255, 9).round().astype(np.uint8)
        colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(27, 27, 3)
        seen = np.asarray(self.applied(Image.fromarray(colours)))
        return int(np.abs(seen.astype(int) - colours).max()) <= SAME

    def applied(self, image: PilImage, intent: int = 0) -> PilImage:
        """``image`` in sRGB, as it is shown; alpha stays as it is, and grey stays grey."""
        if self.space == b"GRAY":
            seen = self._transformed(image.getchannel("L"), "RGB", intent).getchannel("G")
            if image.mode == "LA":
                seen.putalpha(image.getchannel("A"))
            return seen
        if self.space == b"CMYK":
            return self._transformed(image, "RGB", intent)
        colour = (
            image
            if image.mode in ("RGB", "RGBA")
            else image.convert("RGBA" if image.mode == "LA" else "RGB")
        )
        return self._transformed(colour, colour.mode, intent)

    def _transformed(self, image: PilImage, mode: str, intent: int) -> PilImage:
        from PIL import ImageCms

        key = image.mode, intent
        try:
            if key not in self._transforms:
                srgb = ImageCms.createProfile("sRGB")
                self._transforms[key] = ImageCms.buildTransform(
                    self._profile, srgb, image.mode, mode, ImageCms.Intent(intent)
                )
            seen = ImageCms.applyTransform(image, self._transforms[key])
        except ImageCms.PyCMSError:
            raise PictureError(f"the picture's colour profile is damaged: {_ADVICE}") from None
        assert seen is not None
        return seen

    def _require_plain_curves(self) -> None:
        """Refuse tables, which viewers read differently, and curves that show another picture."""
        if _TABLES & set(self._tags):
            raise PictureError(f"the picture's colour profile is one of tables: {_ADVICE}")
        names = (b"kTRC",) if self.space == b"GRAY" else (b"rTRC", b"gTRC", b"bTRC")
        if not all(name in self._tags and _rises_like_a_power(self._tags[name]) for name in names):
            raise PictureError(
                f"the picture's colour profile changes its tones beyond recognition: {_ADVICE}"
            )


@lru_cache(maxsize=16)
def open_profile(content: bytes) -> Profile:
    """A profile that was opened before comes back at once."""
    return Profile(content)


def declared_profile(image: PilImage) -> bytes | None:
    """The profile that the file of ``image`` names, by the precedence that browsers follow."""
    info = image.info
    if "cicp" in info:
        return _coded_profile(*info["cicp"])
    if info.get("icc_profile"):
        content: bytes = info["icc_profile"]
        return content
    if "srgb" in info or not info.get("gamma"):
        return None
    if abs(info["gamma"] - 1 / 2.2) < 1e-3 and "chromaticity" not in info:
        return None  # what programs write that mean sRGB
    exponent = 1 / info["gamma"]
    if not EXPONENTS[0] <= exponent <= EXPONENTS[1]:
        raise PictureError(f"the picture's gamma changes it beyond recognition: {_ADVICE}")
    return matrix_profile(info.get("chromaticity", SRGB_PRIMARIES), (exponent,))


def _coded_profile(primaries: int, transfer: int) -> bytes | None:
    """The profile of code points (ITU-T H.273), which PNG and AVIF files may have instead."""
    if transfer in (1, 2, 6, 13, 14, 15):  # viewers take all these curves for that of sRGB
        if primaries in (1, 2):
            return None
        if primaries in CODED_PRIMARIES:
            return matrix_profile(CODED_PRIMARIES[primaries], SRGB_CURVE)
    raise PictureError(
        f"the picture has colours for HDR or film (code points {primaries}, {transfer}): {_ADVICE}"
    )


def matrix_profile(primaries: tuple[float, ...], curve: tuple[float, ...]) -> bytes:
    """A profile made from chromaticities (x, y) of white, red, green and blue, and a tone curve.

    The curve is an exponent, or the five parameters of a power with a straight beginning.
    """
    white, *colours = (
        np.array([x / y, 1, (1 - x - y) / y])
        for x, y in zip(primaries[::2], primaries[1::2], strict=True)
    )
    scale = np.diag((_BRADFORD @ _D50) / (_BRADFORD @ white))
    adapted = np.linalg.inv(_BRADFORD) @ scale @ _BRADFORD @ np.stack(colours, axis=1)
    red, green, blue = (adapted * np.linalg.solve(adapted, _D50)).T
    kind = struct.pack(">4s4xHxx", b"para", 0 if len(curve) == 1 else 3)
    tags = {b"wtpt": _xyz(_D50), b"rXYZ": _xyz(red), b"gXYZ": _xyz(green), b"bXYZ": _xyz(blue)}
    tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), kind + _fixed(curve))
    table, body, start = b"", b"", 132 + 12 * len(tags)
    for name, content in tags.items():
        table += struct.pack(">4sII", name, start + len(body), len(content))
        body += content
    size = start + len(body)
    header = struct.pack(">I4xI4s4s4s", size, 0x04200000, b"mntr", b"RGB ", b"XYZ ")
    header += struct.pack(">6H4s28x", 2000, 1, 1, 0, 0, 0, b"acsp") + _fixed(_D50)
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def _fixed(values: Any) -> bytes:
    return np.round(np.asarray(values) * 65536).astype(">i4").tobytes()


def _xyz(values: AnyArray) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(values)


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
