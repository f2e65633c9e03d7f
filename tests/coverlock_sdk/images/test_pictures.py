import contextlib
import io
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from coverlock_sdk import NoDefense
from coverlock_sdk.errors import DepthWarning, PictureError
from coverlock_sdk.images.codecs import save_image
from coverlock_sdk.images.conversion import Given, opened, read
from coverlock_sdk.images.picture import MAX_PIXELS, MOST_PIXELS
from coverlock_sdk.images.resampling import resample
from experiments import disguises
from experiments.disguises import encoded
from tests.bombs import bomb, chained_pages

SHAPE = (60, 80)


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(30, 220, (*SHAPE, 3), dtype=np.uint8)


def given_back(source, residual=None):
    """What a caller gets back for a picture, as it is or with a residual."""
    picture, restore = opened(source)
    return restore(picture if residual is None else picture.with_residual(residual))


def small_residual() -> np.ndarray:
    """Smooth, as what survives a change of size is."""
    coarse = np.random.default_rng(1).uniform(-0.03, 0.03, (3, 8, 8)).astype(np.float32)
    return resample(coarse, (32, 32))


def with_alpha(pixels: np.ndarray) -> np.ndarray:
    """Nearly opaque, which looks alike over any background."""
    return np.dstack([pixels, 240 + pixels[..., 0] % 16])


KINDS = {
    "RGB": lambda p: Image.fromarray(p),
    "RGBA": lambda p: Image.fromarray(with_alpha(p)),
    "grey": lambda p: Image.fromarray(p[..., 0]),
    "grey with alpha": lambda p: Image.fromarray(with_alpha(p)[..., 2:]),
    "16-bit grey": lambda p: Image.fromarray(p[..., 0].astype(np.uint16) * 257),
    "uint8 array": lambda p: p,
    "uint8 array with alpha": lambda p: with_alpha(p),
    "grey array": lambda p: p[..., 0],
    "uint16 array": lambda p: p.astype(np.uint16) * 257,
    "float array": lambda p: np.moveaxis(p, -1, 0).astype(np.float32) / 255,
    "float64 array": lambda p: np.moveaxis(p, -1, 0) / 255,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back_as_it_was(kind, pixels):
    source = KINDS[kind](pixels)
    back = given_back(source)
    assert type(back) is type(source) or isinstance(back, Image.Image)
    assert getattr(back, "mode", None) == getattr(source, "mode", None)
    np.testing.assert_allclose(np.asarray(back), np.asarray(source), rtol=1e-6)
    assert np.asarray(back).dtype == np.asarray(source).dtype


@pytest.mark.parametrize("kind", KINDS)
def test_a_residual_is_seen_by_the_network_whatever_the_kind(kind, pixels):
    residual = small_residual()
    if "grey" in kind:
        residual[:] = residual.mean(axis=0)
    picture = read(KINDS[kind](pixels))
    seen = picture.with_residual(residual).view((32, 32)) - picture.view((32, 32))
    np.testing.assert_allclose(seen, residual, atol=0.006)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "uint8"])
def test_tensors_come_back_as_tensors_of_their_type(pixels, dtype):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(np.moveaxis(pixels, -1, 0).astype(np.float32) / 255)
    tensor = torch.from_numpy(pixels) if dtype == "uint8" else tensor.to(getattr(torch, dtype))
    given = Given(torch.stack([tensor, tensor]))
    back = given.collected([given_back(item) for item in given.items])
    assert back.dtype == tensor.dtype
    torch.testing.assert_close(back[0], tensor)


def test_turned_pictures_are_set_upright_and_say_so(tmp_path, pixels):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    exif[0x010E] = "a boat"
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    picture = read(tmp_path / "turned.png")
    assert picture.size == (SHAPE[1], SHAPE[0])
    saved = Image.open(save_image(given_back(tmp_path / "turned.png"), tmp_path / "upright.png"))
    assert saved.size == SHAPE
    assert saved.getexif().get(0x0112, 1) == 1
    assert saved.getexif()[0x010E] == "a boat"


def test_transparency_is_kept_and_looked_through(pixels):
    alpha = np.full(SHAPE, 255, dtype=np.uint8)
    alpha[:2, :2] = 0
    image = Image.fromarray(np.dstack([pixels, alpha]))
    assert (read(image).view(SHAPE)[:, :2, :2] == 1).all()
    marked = np.asarray(given_back(image, small_residual()))
    np.testing.assert_array_equal(marked[..., 3], alpha)


@pytest.mark.parametrize("transparent", [False, True])
def test_palette_pictures_become_true_colour(pixels, transparent):
    image = Image.fromarray(pixels).quantize(32)
    if transparent:
        image.info["transparency"] = bytes([250] * 32)
    back = given_back(image)
    assert back.mode == ("RGBA" if transparent else "RGB")
    expected = image.convert(back.mode)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(expected))


def test_sixteen_bit_colour_files_warn_about_their_depth(tmp_path):
    """Pillow holds 8 bits of such a file."""
    (tmp_path / "deep.png").write_bytes(disguises.png(np.full((40, 40, 3), 0x1234), depth=16))
    with pytest.warns(DepthWarning, match="16 bits"):
        read(tmp_path / "deep.png")


def _replaced(content: bytes, offset: int, part: bytes) -> bytes:
    return content[:offset] + part + content[offset + len(part) :]


FILES = [
    encoded(np.random.default_rng(2).integers(0, 256, (40, 40, 3), dtype=np.uint8), kind)
    for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF")
]


@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=4))))
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_read_or_refused_and_nothing_else(content, damage):
    for offset, part in damage:
        content = _replaced(content, offset, part)
    with contextlib.suppress(PictureError):
        read(content)


def test_a_picture_whose_exif_is_damaged_is_read_without_it(pixels, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(pixels, "JPEG", exif=exif)
    header = content.index(b"Exif\0\0") + 6
    damaged = _replaced(content, header, b"??")
    assert read(content).size == (SHAPE[1], SHAPE[0])
    for source in (damaged, Image.open(io.BytesIO(damaged))):
        picture = read(source)
        assert picture.size == SHAPE
        assert "exif" not in given_back(source).info
    (tmp_path / "p.jpg").write_bytes(damaged)
    assert read(given_back(tmp_path / "p.jpg")).size == SHAPE


NAN = np.full((3, 40, 40), np.nan)
NOISE = np.random.default_rng(2).integers(0, 256, (40, 40, 3), dtype=np.uint8)
BAD = {
    "empty": (b"", "is empty"),
    "text": (b"hello, world" * 20, "not a picture"),
    "truncated": (encoded(NOISE, "JPEG")[:700], "truncated or damaged"),
    "bomb": (bomb(), f"more than {MOST_PIXELS:,} pixels"),
    "tiny": (encoded(NOISE[:1, :1], "JPEG"), "too small"),
    "NaN": (NAN, "from nan to nan"),
    "0..255 floats": (np.full((3, 40, 40), 200.0), r"\[0, 1\]"),
    "floats, channels last": (np.zeros((40, 40, 3)), "channels-first"),
    "bytes, channels first": (np.zeros((3, 40, 40), np.uint8), "channels-last"),
    "integers": (np.zeros((40, 40, 3), np.int64), "int64"),
    "one pixel": (np.zeros((1, 1, 3), np.uint8), "too small"),
    "a dict": ({}, "a dict is not a picture"),
    "a folder": (Path(), "is a folder"),
    "nothing": ("nothing.png", "does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_pictures_are_refused_in_one_sentence(case, tmp_path):
    source, expected = BAD[case]
    if isinstance(source, bytes):
        (tmp_path / "picture.jpg").write_bytes(source)
        source = tmp_path / "picture.jpg"
    with pytest.raises(PictureError, match=expected) as caught:
        read(source)
    assert "\n" not in str(caught.value)


def test_an_animation_is_not_a_picture(tmp_path, pixels):
    frames = [Image.fromarray(pixels), Image.fromarray(pixels[::-1])]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(PictureError, match="several pages"):
        read(tmp_path / "a.gif")


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for Ghostscript is a shell script")
def test_a_picture_never_starts_another_program(tmp_path, monkeypatch):
    """Pillow draws EPS with Ghostscript, which runs whatever program the file holds."""
    started = tmp_path / "started"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {started}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    attack = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\nshowpage\n%%EOF\n"
    with pytest.raises(PictureError, match="not in a format that can be read") as caught:
        read(attack)
    assert not started.exists()
    assert "gs" not in str(caught.value)


@pytest.mark.parametrize("kind", ["BMP", "DDS", "TGA", "PPM", "ICNS", "PCX", "JPEG2000"])
def test_formats_that_nobody_asked_for_are_not_opened(kind, pixels):
    with pytest.raises(PictureError, match="not in a format that can be read.*: save it as PNG$"):
        read(encoded(pixels, kind))


def test_a_chain_of_pages_is_refused_without_counting_them():
    attack = chained_pages(40_000)
    assert len(attack) < 3_300_000
    started = time.process_time()
    with pytest.raises(PictureError, match="several pages"):
        read(attack)
    assert time.process_time() - started < 1


def test_the_most_pixels_of_a_file_are_a_setting(tmp_path, additive):
    Image.new("L", (300, 300)).save(tmp_path / "p.png")
    content = (tmp_path / "p.png").read_bytes()
    for source in (tmp_path / "p.png", content):
        assert read(source, max_pixels=90_000).size == (300, 300)
        with pytest.raises(PictureError, match="too large: .* 89,999 in total"):
            read(source, max_pixels=89_999)
    lock = NoDefense().protect(additive)
    lock.max_pixels = 89_999
    for method in (lock.decode, lambda p: lock.embed(p, "alice"), lambda p: lock.verify(p, "a")):
        with pytest.raises(PictureError, match="too large"):
            method(content)
    assert MAX_PIXELS < MOST_PIXELS


def test_a_long_thin_bomb_is_refused(tmp_path):
    Image.new("1", (200_000, 40)).save(tmp_path / "wide.png")
    with pytest.raises(PictureError, match="too large"):
        read(tmp_path / "wide.png")


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("16-bit grey", ".webp"), ("16-bit grey", ".avif"), ("grey", ".webp")],
)
def test_a_format_that_would_change_the_picture_is_refused(kind, suffix, pixels, tmp_path):
    with pytest.raises(PictureError, match="without loss"):
        save_image(KINDS[kind](pixels), tmp_path / f"p{suffix}")


def test_the_transparent_grey_of_a_picture_is_kept(pixels, tmp_path):
    Image.fromarray(pixels[..., 0]).save(tmp_path / "t.png", transparency=int(pixels[0, 0, 0]))
    assert read(tmp_path / "t.png").alpha[0, 0, 0] == 0


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_lossless_formats_keep_every_pixel(suffix, tmp_path, pixels):
    path = save_image(Image.fromarray(pixels), tmp_path / f"p{suffix}")
    np.testing.assert_array_equal(np.asarray(Image.open(path)), pixels)


def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written(tmp_path, pixels):
    with pytest.raises(PictureError, match="use one of"):
        save_image(Image.fromarray(pixels), tmp_path / "p.xyz")
    with pytest.raises(PictureError, match="cannot be saved as"):
        save_image(KINDS["RGBA"](pixels), tmp_path / "p.jpg")
    assert list(tmp_path.iterdir()) == []
