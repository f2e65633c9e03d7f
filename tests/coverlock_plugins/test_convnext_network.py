"""The two ConvNeXts against the layouts they were published with."""

import pytest

torch = pytest.importorskip("torch")

from coverlock_plugins.convnext.network import (  # noqa: E402
    BASE,
    TINY,
    ConvNeXt,
    ConvNeXtV2,
    ResponseNorm,
)
from tests.coverlock_plugins.published import DIGESTS, layout_digest  # noqa: E402


@pytest.mark.parametrize(
    ("network", "shape", "name"),
    [(ConvNeXt, BASE, "convnext"), (ConvNeXtV2, TINY, "convnext v2")],
)
def test_names_shapes_and_order_are_the_published_ones(network, shape, name):
    with torch.device("meta"):
        state = network(shape).state_dict()
    assert layout_digest((key, value.shape) for key, value in state.items()) == DIGESTS[name]


def test_response_norm_by_hand():
    """Energies 5 and 0 have the mean 2.5, so the channels are weighed by 2 and 0."""
    norm = ResponseNorm(2)
    x = torch.tensor([[[[3.0, 0.0], [4.0, 0.0]]]])  # one row, two columns, two channels
    assert torch.equal(norm(x), x)  # gamma and beta start at zero
    torch.nn.init.ones_(norm.gamma)
    torch.nn.init.constant_(norm.beta, 0.5)
    expected = torch.tensor([[[[9.5, 0.5], [12.5, 0.5]]]])
    torch.testing.assert_close(norm(x), expected, rtol=1e-5, atol=1e-5)
