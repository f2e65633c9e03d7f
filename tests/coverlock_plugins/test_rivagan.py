"""RivaGAN as a watermark, in ONNX Runtime and in PyTorch."""

import numpy as np
import numpy.typing as npt
import pytest

from coverlock_plugins.rivagan import ASSET, DECODER, ENCODER, RivaGan
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from tests.coverlock_plugins.published import DIGESTS, layout_digest


@pytest.fixture(scope="module")
def watermark():
    pytest.importorskip("onnxruntime")
    try:
        return RivaGan()
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def payloads():
    return np.random.default_rng(1).integers(0, 2, (2, 32), dtype=np.uint8)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_the_network_is_the_published_one(part):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from coverlock_plugins.rivagan.network import RivaganNetwork

    with torch.device("meta"):
        state = RivaganNetwork().state_dict()
    theirs = {"attention": "_attention", part: "_conv"}
    layout = []
    for name, value in state.items():
        module, _, rest = name.partition(".")
        shape = tuple(value.unsqueeze(2).shape if value.ndim == 4 else value.shape)  # one frame
        if module in theirs:
            layout.append((f"{theirs[module]}.{rest}", shape))
    assert layout_digest(layout) == DIGESTS[f"rivagan {part}"]


def initializers(graph: bytes) -> dict[str, npt.NDArray[np.float32]]:
    onnx = pytest.importorskip("onnx")
    held = onnx.load_from_string(graph).graph.initializer
    return {values.name: onnx.numpy_helper.to_array(values) for values in held}


def test_weights_go_into_the_graphs_and_come_back(watermark, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from coverlock_plugins.rivagan.network import RivaganNetwork, from_onnx, into_onnx

    graphs = {"encoder": ASSET.locate() / ENCODER, "decoder": ASSET.locate() / DECODER}
    published, trained = watermark.network(), RivaganNetwork()
    for part, graph in graphs.items():
        before = initializers(graph.read_bytes())
        after = initializers(into_onnx(published, graph, part))
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)
        (tmp_path / part).write_bytes(into_onnx(trained, graph, part))
    again = from_onnx(tmp_path / "encoder", tmp_path / "decoder")
    for name, value in trained.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_a_truncated_graph_is_refused(watermark, tmp_path, monkeypatch):
    whole = {graph: (ASSET.locate() / graph).read_bytes() for graph in (ENCODER, DECODER)}
    folder = tmp_path / f"rivagan-{ASSET.sha256[:12]}"
    folder.mkdir()
    (folder / ENCODER).write_bytes(whole[ENCODER])
    (folder / DECODER).write_bytes(whole[DECODER][: len(whole[DECODER]) // 2])
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(CorruptModelError, match=DECODER):
        RivaGan()
