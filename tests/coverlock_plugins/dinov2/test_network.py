"""DINOv2 itself: against formulas, and against Meta's way with positions."""

import pytest

torch = pytest.importorskip("torch")

from coverlock_plugins.dinov2 import sources  # noqa: E402
from coverlock_plugins.dinov2.hash import VARIANTS  # noqa: E402
from coverlock_plugins.dinov2.network import Dinov2, resize_positions  # noqa: E402
from tests.coverlock_plugins.dinov2 import tiny_dinov2  # noqa: E402


@pytest.mark.parametrize("gated", [False, True], ids=["mlp", "swiglu"])
def test_the_network_computes_what_the_formulas_say(gated):
    state = tiny_dinov2.kept_weights(gated)
    network = Dinov2(**tiny_dinov2.variant(gated).shape)
    network.load_state_dict(state)
    images = torch.randn(1, 3, 518, 518, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        tokens = network(images)
    expected = tiny_dinov2.reference(state, images, gated)
    torch.testing.assert_close(tokens, expected, atol=2e-4, rtol=1e-3)


def test_all_sizes_have_the_published_numbers_of_parameters():
    millions = {
        name: round(sum(map(torch.numel, sources.layout(name).values())) / 1e6, 1)
        for name in VARIANTS
    }
    expected = {"dinov2-s": 22.1, "dinov2-b": 86.6, "dinov2-l": 304.4, "dinov2-g": 1136.5}
    assert millions == expected


def test_positions_are_interpolated_as_meta_does():
    positions = torch.randn(1, 1 + 37 * 37, 5, generator=torch.Generator().manual_seed(0))
    plane = positions[0, 1:, 3].reshape(1, 1, 37, 37)
    expected = torch.nn.functional.interpolate(
        plane, scale_factor=16.1 / 37, mode="bicubic", antialias=False
    )
    resized = resize_positions(positions, 16)
    assert resized.shape == (1, 1 + 16 * 16, 5)
    torch.testing.assert_close(resized[0, 1:, 3].reshape(16, 16), expected[0, 0])
    assert torch.equal(resized[:, 0], positions[:, 0])
    without_offset = torch.nn.functional.interpolate(plane, size=(16, 16), mode="bicubic")
    assert (expected - without_offset).abs().max() > 0.01  # so the offset is seen
    assert resize_positions(positions, 37) is positions
