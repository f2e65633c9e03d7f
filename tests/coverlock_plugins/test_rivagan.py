"""RivaGAN as a watermark, in ONNX Runtime and in PyTorch."""

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


def test_a_truncated_graph_is_refused(watermark, tmp_path, monkeypatch):
    whole = {graph: (ASSET.locate() / graph).read_bytes() for graph in (ENCODER, DECODER)}
    folder = tmp_path / f"rivagan-{ASSET.sha256[:12]}"
    folder.mkdir()
    (folder / ENCODER).write_bytes(whole[ENCODER])
    (folder / DECODER).write_bytes(whole[DECODER][: len(whole[DECODER]) // 2])
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(CorruptModelError, match=DECODER):
        RivaGan()
