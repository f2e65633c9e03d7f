"""What is verified is what is shown: files that viewers would show as another picture."""

import io
import struct
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageCms, features

from coverlock_sdk import Key, wrap
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.colours import Profile
from coverlock_sdk.images.conversion import opened, read
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.testing import natural_pictures
from experiments import disguises
from experiments.disguises import DISGUISES, encoded

SRGB_CURVE = disguises.table_curve(disguises.light(np.arange(1024) / 1023))
ADOBE = ((0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609), (0.1492, 0.0632, 0.7446))
PROPHOTO = ((0.7977, 0.2880, 0.0), (0.1352, 0.7119, 0.0), (0.0313, 0.0001, 0.8249))
PROFILES = {
    "sRGB": disguises.curves_profile(SRGB_CURVE),
    "Display P3": disguises.curves_profile(SRGB_CURVE, disguises.DISPLAY_P3),
    "Adobe RGB": disguises.curves_profile(disguises.power_curve(2.19921875), ADOBE),
    "ProPhoto RGB": disguises.curves_profile(disguises.power_curve(1.8), PROPHOTO),
}


NAME = "order-4711"


@pytest.fixture(scope="module")
def lock():
    pytest.importorskip("torch", reason="mbrs needs PyTorch")
    return wrap("mbrs", key=Key(bytes(range(32)), id="test"))


@pytest.fixture(scope="module")
def photos():
    return list(natural_pictures(4, (256, 256), seed=3))


@pytest.fixture
def photo(photos):
    return photos[0]


def is_accepted(lock: LockedWatermark, content: bytes) -> bool:
    try:
        return lock.verify(content, NAME).accepted
    except PictureError:
        return False


def converted(picture: np.ndarray | Image.Image, profile: bytes) -> Image.Image:
    """What an editor makes of an sRGB picture in another colour space."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    target = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    result = ImageCms.profileToProfile(image, ImageCms.createProfile("sRGB"), target)
    result.info["icc_profile"] = profile
    return result


def levels_apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype(float) - other).mean())


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_marked_picture_that_shows_another_is_not_accepted(disguise, lock, photos):
    for photo, other in pairwise(photos):
        marked = lock.embed(photo, NAME)
        assert is_accepted(lock, encoded(marked))
        assert not is_accepted(lock, DISGUISES[disguise](marked, other))


@pytest.mark.parametrize("space", PROFILES)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_marked_picture_that_is_converted_still_verifies(space, kind, lock, photo):
    marked = converted(lock.embed(photo, NAME), PROFILES[space])
    options = {"quality": 95} if kind == "JPEG" else {}
    assert is_accepted(lock, encoded(marked, kind, icc_profile=PROFILES[space], **options))


@pytest.mark.parametrize("space", PROFILES)
def test_a_picture_of_any_colour_space_is_marked_in_srgb(space, lock, photo, tmp_path):
    original = converted(photo, PROFILES[space])
    original.save(tmp_path / "photo.png", icc_profile=PROFILES[space])
    saved = lock.embed(tmp_path / "photo.png", NAME)
    assert lock.verify(saved, NAME).accepted
    image = Image.open(saved)
    assert Profile(image.info["icc_profile"]).is_srgb
    assert levels_apart(np.asarray(image), photo) < 6


def test_grey_pictures_of_gamma_2_2_verify_in_their_space():
    profile = disguises.grey_profile(disguises.power_curve(2.2))
    grey = natural_pictures(1, (256, 256))[0][..., 1]
    picture, restore = opened(encoded(grey, icc_profile=profile))
    shown = np.asarray(restore(picture))
    assert shown.shape == grey.shape
    assert 0.5 < levels_apart(shown, grey) < 5
    deep = encoded(Image.fromarray(grey.astype(np.uint16) * 257), icc_profile=profile)
    np.testing.assert_array_equal(read(deep).pixels, picture.pixels)


@pytest.mark.parametrize(
    "profile",
    [
        disguises.grey_profile(disguises.power_curve(2.5)),
        disguises.icc_profile({}, b"CMYK", b"Lab "),
    ],
    ids=["grey", "CMYK"],
)
def test_a_profile_for_another_kind_of_picture_is_left_alone_as_in_browsers(profile, photo):
    np.testing.assert_array_equal(read(encoded(photo, icc_profile=profile)).to_bytes(), photo)


CURVES = {
    "falls": lambda x: disguises.light(x) * (1 - 0.3 * (x > 0.5)),
    "has one dent": lambda x: np.where(np.isclose(x, 100 / 255), 0, disguises.light(x)),
    "is steep": lambda x: x**6,
    "is flat": lambda x: x**0.5,
    "is a step": lambda x: (x > 0.5).astype(float),
}


@pytest.mark.parametrize("curve", CURVES)
def test_tone_curves_that_no_photo_has_are_refused(curve, photo):
    table = disguises.table_curve(CURVES[curve](np.arange(256) / 255))
    for profile, pixels in (
        (disguises.curves_profile(table), photo),
        (disguises.grey_profile(table), photo[..., 0]),
    ):
        with pytest.raises(PictureError, match="colour profile changes its tones"):
            read(encoded(pixels, icc_profile=profile))


def test_primaries_that_show_another_picture_are_refused(photos):
    """Red is nearly all of the light, and only red holds the other picture."""
    primaries = ((0.9517, 0.98, 0.7639), (0.0016, 0.02, 0.0011), (0.0109, 0.0, 0.0599))
    swapped = disguises.curves_profile(SRGB_CURVE, primaries)
    pixels = np.dstack([photos[1][..., 0], photos[0][..., 1:]])
    with pytest.raises(PictureError, match="where its colour profile is ignored"):
        read(encoded(pixels, icc_profile=swapped))


def test_profiles_of_tables_and_damaged_ones_are_refused(photo):
    tables = disguises.icc_profile({b"A2B0": b"mft1" + bytes(64)})
    for profile, reason in ((tables, "tables"), (b"no profile" * 30, "damaged")):
        with pytest.raises(PictureError, match=reason):
            read(encoded(photo, icc_profile=profile))


def test_cmyk_is_refused(photo):
    with pytest.raises(PictureError, match="convert it to sRGB"):
        read(encoded(Image.fromarray(photo).convert("CMYK"), "JPEG"))


def test_colours_of_png_are_srgb_whichever_chunk_says_so(photo):
    usual, strong = disguises.gamma_chunk(0.45455), disguises.gamma_chunk(0.02)
    srgb, wild = disguises.chunk(b"sRGB", b"\0"), disguises.profile_chunk(disguises.LOW_BITS)
    plain = disguises.chunk(b"cICP", bytes((1, 13, 0, 1)))
    for chunks in ((strong, srgb), (srgb, strong), (plain,), (usual,)):
        np.testing.assert_array_equal(read(disguises.png(photo, *chunks)).to_bytes(), photo)
    wide = disguises.chunk(b"cHRM", struct.pack(">8I", *range(20_000, 100_000, 10_000)))
    for chunks in ((strong,), (disguises.gamma_chunk(1 / 1.8),), (usual, wide), (wild, srgb)):
        with pytest.raises(PictureError, match="convert the picture to sRGB"):
            read(disguises.png(photo, *chunks))
    for code in ((12, 13), (9, 16), (2, 13), (1, 2), (1, 1)):
        with pytest.raises(PictureError, match="not sRGB's alone"):
            read(disguises.png(photo, disguises.chunk(b"cICP", bytes((*code, 0, 1)))))
    with pytest.raises(PictureError, match="not sRGB's alone"):
        read(disguises.png(photo, disguises.profile_chunk(PROFILES["Display P3"]), plain))


@pytest.mark.parametrize(
    ("keyword", "colours"),
    [
        (b"icc_profile", disguises.profile_chunk(disguises.LOW_BITS)),
        (b"srgb", disguises.gamma_chunk(1 / 50)),
    ],
)
def test_a_comment_does_not_hide_what_a_png_says_of_its_colours(keyword, colours, photo):
    """Pillow keeps comments among what it says of a picture, under names that they choose."""
    comment = disguises.chunk(b"tEXt", keyword + b"\0")
    with pytest.raises(PictureError, match="a comment in the PNG file poses as its colours"):
        read(disguises.png(photo, colours, late=comment))
    assert read(disguises.png(photo, disguises.chunk(b"tEXt", b"Title\0srgb"))).size == (256, 256)


def test_a_png_that_says_twice_or_late_how_it_is_shown_is_refused(photo):
    gamma, turned = disguises.gamma_chunk(0.45455), Image.Exif()
    turned[0x0112] = 3
    exif = disguises.chunk(b"eXIf", turned.tobytes().removeprefix(b"Exif\0\0"))
    assert read(disguises.png(photo, exif)).size == (256, 256)
    for content in (
        disguises.png(photo, gamma, gamma),
        disguises.png(photo, late=gamma),
        disguises.png(photo, late=exif),
    ):
        with pytest.raises(PictureError, match="twice or too late"):
            read(content)


def test_a_profile_of_a_jpeg_is_found_in_parts_and_wherever_it_is(photo):
    profile = PROFILES["Adobe RGB"]
    whole = read(encoded(photo, "JPEG", quality=95, icc_profile=profile)).pixels
    plain = encoded(photo, "JPEG", quality=95)
    parts = [
        b"\xff\xe2" + struct.pack(">H", len(part) + 16) + b"ICC_PROFILE\0" + bytes((n, 2)) + part
        for n, part in ((1, profile[:200]), (2, profile[200:]))
    ]
    pixels = plain.index(b"\xff\xda")
    split = plain[:2] + parts[1] + plain[2:pixels] + parts[0] + plain[pixels:]
    np.testing.assert_array_equal(read(split).pixels, whole)
    with pytest.raises(PictureError, match="twice or in part"):
        read(plain[:2] + parts[0] + plain[2:])


def test_a_gif_whose_frame_does_not_fill_it_is_refused(photo):
    content = encoded(Image.fromarray(photo).convert("P"), "GIF")
    assert read(content).size == (256, 256)
    larger = content.replace(struct.pack("<HH", 256, 256), struct.pack("<HH", 400, 300), 1)
    with pytest.raises(PictureError, match="does not fill it"):
        read(larger)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")
def test_code_points_of_avif_are_those_of_srgb_unless_there_is_a_profile(photo):
    content = encoded(photo, "AVIF", quality=95)
    place = content.index(b"colrnclx") + 8

    def coded(primaries: int, transfer: int) -> bytes:
        return content[:place] + struct.pack(">HH", primaries, transfer) + content[place + 4 :]

    np.testing.assert_array_equal(read(coded(1, 1)).to_bytes(), read(content).to_bytes())
    for codes in ((12, 13), (6, 13), (9, 16)):
        with pytest.raises(PictureError, match="other colours than those of sRGB"):
            read(coded(*codes))
    tagged = encoded(photo, "AVIF", quality=95, icc_profile=PROFILES["Display P3"])
    assert levels_apart(read(tagged).to_bytes(), photo) > 0.5
    with pytest.raises(PictureError, match="does not say how colours are meant"):
        read(content.replace(b"colrnclx", b"freenclx"))


def test_transparency_that_changes_the_picture_is_refused(photo):
    alpha = np.full((256, 256), 255, np.uint8)
    alpha[64:192, 64:192] = 60
    for pixels in (np.dstack([photo, alpha]), Image.fromarray(np.dstack([photo, alpha]))):
        with pytest.raises(PictureError, match="over white and over black"):
            read(pixels)
    with pytest.raises(PictureError, match="mostly transparent"):
        read(np.dstack([photo, alpha // 4]))
    faint = np.dstack([photo, np.full_like(alpha, 250)])
    assert read(faint).alpha is not None


def test_a_transparent_colour_of_16_bits_is_refused(photo):
    key = disguises.chunk(b"tRNS", struct.pack(">3H", 257, 257, 257))
    with pytest.raises(PictureError, match="16 bits and a transparent colour"):
        read(disguises.png(photo.astype(int) * 257, key, depth=16))


@pytest.mark.parametrize("mark", [b"hdrgm:Version", b"urn:iso:std:iso:ts:21496:-1"])
def test_a_rendition_for_hdr_screens_is_left_out_by_marking_and_refused_in_verification(
    mark, photo
):
    content = encoded(photo, "JPEG", quality=95, comment=mark)
    with pytest.raises(PictureError, match="HDR screens"):
        read(content)
    picture, restore = opened(content)
    assert read(encoded(restore(picture))).size == (256, 256)


@pytest.mark.parametrize(("kind", "turned"), [("JPEG", True), ("PNG", True), ("WEBP", False)])
def test_orientation_is_that_of_browsers(kind, turned, photo):
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 3, "a boat"
    content = encoded(photo, kind, exif=exif)
    picture, restore = opened(content)
    raw = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    np.testing.assert_array_equal(picture.pixels, raw[::-1, ::-1] if turned else raw)
    again = Image.open(io.BytesIO(encoded(restore(picture), exif=restore(picture).info["exif"])))
    assert again.getexif().get(0x0112, 1) == 1
    assert again.getexif()[0x010E] == "a boat"


def test_orientation_in_xmp_is_not_followed(photo):
    xmp = b'<rdf:Description tiff:Orientation="3"/>'
    np.testing.assert_array_equal(
        read(encoded(photo, "JPEG", quality=95, xmp=xmp)).pixels,
        read(encoded(photo, "JPEG", quality=95)).pixels,
    )
