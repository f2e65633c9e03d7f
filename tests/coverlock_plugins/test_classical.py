"""blind-watermark, dwtdct and dwtdctsvd: watermarks without networks, from PyPI packages."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coverlock_plugins.blind_watermark import BlindWatermark, threshold
from coverlock_plugins.invisible_watermark import DwtDct, DwtDctSvd, InvisibleWatermark
from coverlock_sdk import Watermark, wrap
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.errors import MissingModelError, PictureError
from coverlock_sdk.images.distortions import Jpeg
from tests.coverlock_plugins.scenes import eight_bit, scenes

BITS = 64


@pytest.fixture(scope="module")
def blind() -> BlindWatermark:
    pytest.importorskip("cv2")
    pytest.importorskip("pywt")
    try:
        return BlindWatermark()
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=[DwtDct, DwtDctSvd])
def invisible(request: pytest.FixtureRequest) -> InvisibleWatermark:
    try:
        watermark: InvisibleWatermark = request.param()
    except MissingModelError as missing:
        pytest.skip(str(missing))
    return watermark


@pytest.fixture(scope="module")
def payload() -> Bits:
    return np.random.default_rng(1).integers(0, 2, (1, BITS), dtype=np.uint8)


def marked(watermark: Watermark, payload: Bits, side: int = 256) -> Images:
    return eight_bit(watermark.embed(scenes(1)[..., :side, :side], payload))


def as_the_library_has_it(images: Images) -> np.ndarray:  # type: ignore[type-arg]
    pixels = np.rint(255 * images[0]).astype(np.uint8)
    return np.ascontiguousarray(pixels[::-1].transpose(1, 2, 0))


def test_pictures_of_the_plugin_are_read_by_the_library(
    blind: BlindWatermark, payload: Bits
) -> None:
    from blind_watermark import WaterMark

    released = as_the_library_has_it(marked(blind, payload, 128))
    read = WaterMark(1, 1).extract(embed_img=released, wm_shape=BITS, mode="bit")
    np.testing.assert_array_equal(read, payload[0])


def test_pictures_of_the_library_are_read_by_the_plugin(blind: BlindWatermark) -> None:
    from blind_watermark import WaterMark

    mine = np.random.default_rng(2).integers(0, 2, BITS).astype(bool)
    library, plugin = WaterMark(7, 9), BlindWatermark(password_wm=7, password_img=9)
    cover = scenes(1)[..., :128, :128]
    library.read_img(img=as_the_library_has_it(cover))
    library.read_wm(mine.copy(), mode="bit")
    released = library.embed()[..., ::-1].transpose(2, 0, 1)[None] / 255
    np.testing.assert_array_equal(plugin.decode(eight_bit(released))[0], mine)
    assert (blind.decode(eight_bit(released))[0] != mine).mean() > 0.2  # other passwords


def test_blocks_are_marked_as_the_library_marks_them(blind: BlindWatermark, payload: Bits) -> None:
    from blind_watermark import WaterMark

    cover = scenes(1)[..., :101, :134]  # odd, and no whole number of blocks
    library = WaterMark(1, 1)
    library.read_img(img=255 * cover[0, ::-1].transpose(1, 2, 0))
    library.read_wm(payload[0].astype(bool), mode="bit")
    theirs = library.embed()[..., ::-1].transpose(2, 0, 1) / 255
    np.testing.assert_allclose(blind.embed(cover, payload)[0], theirs, atol=1e-4)


def test_pictures_are_let_go_at_once(blind: BlindWatermark, payload: Bits) -> None:
    """Without waiting for the garbage collector, which counts objects and not their size."""
    cover = scenes(1)[..., :128, :128]
    gc.collect()
    gc.disable()
    try:
        blind.decode(blind.embed(cover, payload))
        kept = [held for held in gc.get_objects() if type(held).__name__ == "WaterMarkCore"]
    finally:
        gc.enable()
    assert kept == []


@pytest.mark.parametrize("bit", [0, 1])
def test_equal_bits_are_read(blind: BlindWatermark, bit: int) -> None:
    """The library's own k-means takes them for two groups."""
    payload = np.full((1, BITS), bit, np.uint8)
    np.testing.assert_array_equal(blind.decode(marked(blind, payload)), payload)


def test_the_threshold_follows_a_bias_but_not_everywhere() -> None:
    biased = np.array([0.2, 0.25, 0.6, 0.55])
    assert threshold(biased) == pytest.approx(0.4)
    ones, zeros = np.linspace(0.9, 1, 8), np.linspace(0, 0.1, 8)
    assert (ones > threshold(ones)).all()
    assert not (zeros > threshold(zeros)).any()


def test_a_locked_picture_survives_compression(blind: BlindWatermark) -> None:
    locked = wrap(blind)
    cover = np.rint(255 * scenes(1)[0].transpose(1, 2, 0)).astype(np.uint8)
    released = locked.embed(cover, "order-4711")
    compressed = Jpeg(75)(released, np.random.default_rng(0))
    assert locked.verify(compressed, "order-4711")
    assert not locked.verify(compressed, "order-4712")


def test_a_picture_without_room_is_refused(blind: BlindWatermark, payload: Bits) -> None:
    small = scenes(1)[..., :64, :64]
    with pytest.raises(PictureError, match="64 x 64 pixels has room for fewer than 64 bits"):
        blind.embed(small, payload)
    with pytest.raises(PictureError, match="larger picture or fewer bits"):
        blind.decode(small)


def test_loading_leaves_processes_as_they_were(blind: BlindWatermark) -> None:
    """The library sets the start method, and greets on the standard output."""
    program = (
        "import multiprocessing; multiprocessing.set_start_method('spawn');"
        "from coverlock_plugins.blind_watermark import BlindWatermark; BlindWatermark();"
        "assert multiprocessing.get_start_method() == 'spawn'"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_invisible_watermark_agrees_with_its_library(
    invisible: InvisibleWatermark, payload: Bits
) -> None:
    from imwatermark import WatermarkDecoder, WatermarkEncoder

    cover = scenes(1)
    writer = WatermarkEncoder()
    writer.set_watermark("bits", payload[0].tolist())
    theirs = writer.encode(as_the_library_has_it(cover), invisible.method)
    ours = invisible.embed(cover, payload)
    np.testing.assert_array_equal(as_the_library_has_it(ours), theirs)
    read = WatermarkDecoder("bits", BITS).decode(theirs, invisible.method)
    np.testing.assert_array_equal(invisible.decode(ours)[0], read)


def test_invisible_watermark_marks_no_small_pictures(
    invisible: InvisibleWatermark, payload: Bits
) -> None:
    with pytest.raises(PictureError, match=r"65,536 pixels \(256 x 256\) or more.* 200 x 256"):
        invisible.embed(scenes(1)[..., :200], payload)


def test_a_small_crop_of_a_marked_picture_reads_as_noise(
    invisible: InvisibleWatermark, payload: Bits
) -> None:
    cropped = invisible.embed(scenes(1), payload)[..., 9:240, 7:250]
    assert 0.2 < (invisible.decode(cropped) == payload).mean() < 0.8


@pytest.mark.parametrize(
    ("watermark", "module", "extra"),
    [
        (BlindWatermark, "blind_watermark", "blind-watermark"),
        (DwtDct, "imwatermark", "invisible-watermark"),
        (DwtDctSvd, "imwatermark", "invisible-watermark"),
    ],
)
def test_a_missing_library_names_its_extra(
    watermark: type[Watermark], module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingModelError, match=rf"{watermark.name}.*coverlock-sdk\[{extra}\]"):
        watermark()


@pytest.mark.shared
def test_bits_come_back_from_real_photos(
    blind: BlindWatermark, payload: Bits, shared_data: Path
) -> None:
    from coverlock_bench.photos import load_squares, to_float

    photos = load_squares(sorted((shared_data / "cc0").glob("*.jpg"))[:4], 256)
    for photo in photos:
        cover = to_float(photo)[None]
        np.testing.assert_array_equal(blind.decode(eight_bit(blind.embed(cover, payload))), payload)
