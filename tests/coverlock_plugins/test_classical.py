"""blind-watermark, dwtdct and dwtdctsvd: watermarks without networks, from PyPI packages."""

import numpy as np
import pytest

from coverlock_plugins.blind_watermark import BlindWatermark, threshold
from coverlock_plugins.invisible_watermark import DwtDct, DwtDctSvd, InvisibleWatermark
from coverlock_sdk import Watermark
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.errors import MissingModelError
from tests.coverlock_plugins.scenes import eight_bit, scenes

BITS = 64


@pytest.fixture(scope="module")
def blind():
    pytest.importorskip("cv2")
    pytest.importorskip("pywt")
    try:
        return BlindWatermark()
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=[DwtDct, DwtDctSvd])
def invisible(request):
    try:
        watermark: InvisibleWatermark = request.param()
    except MissingModelError as missing:
        pytest.skip(str(missing))
    return watermark


@pytest.fixture(scope="module")
def payload():
    return np.random.default_rng(1).integers(0, 2, (1, BITS), dtype=np.uint8)


def marked(watermark: Watermark, payload: Bits, side: int = 256) -> Images:
    return eight_bit(watermark.embed(scenes(1)[..., :side, :side], payload))


def as_the_library_has_it(images: Images) -> np.ndarray:  # type: ignore[type-arg]
    pixels = np.rint(255 * images[0]).astype(np.uint8)
    return np.ascontiguousarray(pixels[::-1].transpose(1, 2, 0))


def test_pictures_of_the_plugin_are_read_by_the_library(blind, payload):
    from blind_watermark import WaterMark

    released = as_the_library_has_it(marked(blind, payload, 128))
    read = WaterMark(1, 1).extract(embed_img=released, wm_shape=BITS, mode="bit")
    np.testing.assert_array_equal(read, payload[0])


def test_invisible_watermark_agrees_with_its_library(invisible, payload):
    from imwatermark import WatermarkDecoder, WatermarkEncoder

    cover = scenes(1)
    writer = WatermarkEncoder()
    writer.set_watermark("bits", payload[0].tolist())
    theirs = writer.encode(as_the_library_has_it(cover), invisible.method)
    ours = invisible.embed(cover, payload)
    np.testing.assert_array_equal(as_the_library_has_it(ours), theirs)
    read = WatermarkDecoder("bits", BITS).decode(theirs, invisible.method)
    np.testing.assert_array_equal(invisible.decode(ours)[0], read)


def test_the_threshold_follows_a_bias_but_not_everywhere():
    biased = np.array([0.2, 0.25, 0.6, 0.55])
    assert threshold(biased) == pytest.approx(0.4)
    ones, zeros = np.linspace(0.9, 1, 8), np.linspace(0, 0.1, 8)
    assert (ones > threshold(ones)).all()
    assert not (zeros > threshold(zeros)).any()
