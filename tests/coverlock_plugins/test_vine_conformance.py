"""The conformance kit on a tiny VINE: all promises but those that only trained weights can keep."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")

from coverlock_plugins.vine import Vine
from coverlock_sdk.testing.test_watermark import *  # noqa: F403
from tests.coverlock_plugins.test_vine import TINY, converted, tiny_networks

NEED_TRAINING = {"test_payload_can_be_read", "test_imperceptibility"}


@pytest.fixture(scope="session")
def watermark(tmp_path_factory):
    folder = converted(*tiny_networks(), tmp_path_factory.mktemp("tiny vine"))
    return Vine(size=64, weights=folder, **TINY)


@pytest.fixture(autouse=True)
def _untrained(request):
    if request.function.__name__ in NEED_TRAINING:
        pytest.skip("random weights carry no message")
