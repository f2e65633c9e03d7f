"""The conformance kit on blind-watermark, dwtdct and dwtdctsvd, and what the last two cannot do."""

from __future__ import annotations

from typing import Any

import pytest

from coverlock_plugins.blind_watermark import BlindWatermark
from coverlock_plugins.invisible_watermark import DwtDct, DwtDctSvd
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.testing.test_pictures import *  # noqa: F403
from coverlock_sdk.testing.test_pictures import test_greyscale as promised_greyscale
from coverlock_sdk.testing.test_pictures import test_lock_accepts as promised_lock_accepts
from coverlock_sdk.testing.test_pictures import test_other_sizes as promised_other_sizes
from coverlock_sdk.testing.test_watermark import *  # noqa: F403
from coverlock_sdk.testing.test_watermark import test_bit_accuracy as promised_bit_accuracy

pytestmark = pytest.mark.slow  # they mark block by block, in Python

SCALES = [(1.875, 2.5), (3.5, 1.2)]
FRAGILE = "marking a block can make another coefficient its largest, which is then read instead"
IN_COLOUR = "it marks a chroma channel, which grey pictures do not have"


@pytest.fixture(scope="session", params=[BlindWatermark, DwtDct, DwtDctSvd])
def watermark(request: pytest.FixtureRequest) -> Any:
    try:
        return request.param()
    except MissingModelError as missing:
        pytest.skip(str(missing))


def fails(request: pytest.FixtureRequest, reason: str) -> None:
    request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.mark.parametrize("content", ["random", "zeros", "ones"])
def test_bit_accuracy(
    request: pytest.FixtureRequest, legible: Any, marked: Any, record_property: Any, content: str
) -> None:
    if legible.name == "dwtdct" and content != "ones":
        fails(request, FRAGILE)
    promised_bit_accuracy(legible, marked, record_property, content)


@pytest.mark.parametrize(("taller", "wider"), SCALES, ids=["landscape", "portrait"])
def test_other_sizes(
    request: pytest.FixtureRequest,
    legible: Any,
    unlocked: Any,
    photos: Any,
    record_property: Any,
    taller: float,
    wider: float,
) -> None:
    if legible.name == "dwtdct":
        fails(request, FRAGILE)
    promised_other_sizes(legible, unlocked, photos, record_property, taller, wider)


def test_greyscale(
    request: pytest.FixtureRequest, legible: Any, unlocked: Any, marked: Any, record_property: Any
) -> None:
    if legible.name != "blind-watermark":
        fails(request, IN_COLOUR)
    promised_greyscale(legible, unlocked, marked, record_property)


def test_lock_accepts(
    request: pytest.FixtureRequest, legible: Any, locked: Any, locked_pictures: Any
) -> None:
    if legible.name == "dwtdct":
        fails(request, FRAGILE)
    promised_lock_accepts(locked, locked_pictures)
