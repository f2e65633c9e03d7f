"""The conformance kit on a tiny VINE: all promises but those that only trained weights can keep."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from coverlock_plugins.vine import Vine, weights  # noqa: E402
from coverlock_plugins.vine.network import Encoder, Layout, build_decoder  # noqa: E402
from coverlock_sdk.testing.test_watermark import *  # noqa: E402, F403
from tests.coverlock_plugins.test_vine import TINY  # noqa: E402

NEED_TRAINING = {"test_payload_can_be_read", "test_imperceptibility"}


@pytest.fixture(scope="session")
def watermark(tmp_path_factory):
    torch.manual_seed(0)
    encoder, decoder = Encoder(Layout(**TINY)), build_decoder(Layout(**TINY))
    torch.nn.init.normal_(encoder.prompt)
    folder = tmp_path_factory.mktemp("tiny vine")
    weights.save(encoder, decoder, folder)
    return Vine(size=64, weights=folder, **TINY)


@pytest.fixture(autouse=True)
def _untrained(request):
    if request.function.__name__ in NEED_TRAINING:
        pytest.skip("random weights carry no message")
