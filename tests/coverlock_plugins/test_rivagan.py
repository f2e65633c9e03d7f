"""RivaGAN as a watermark, in ONNX Runtime and in PyTorch."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from coverlock_plugins.rivagan import ASSET, DECODER, ENCODER, RivaGan
from coverlock_sdk.errors import CorruptModelError, CoverLockError, MissingModelError
from tests.coverlock_plugins import published_layouts
from tests.coverlock_plugins.scenes import eight_bit, scenes


@pytest.fixture(scope="module")
def watermark() -> RivaGan:
    pytest.importorskip("onnxruntime")
    try:
        return RivaGan()
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def payloads() -> npt.NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 2, (2, 32), dtype=np.uint8)


def test_bits_come_back_from_saved_pictures(
    watermark: RivaGan, payloads: npt.NDArray[np.uint8]
) -> None:
    covers = scenes(2)
    marked = eight_bit(watermark.embed(covers, payloads))
    assert ((watermark.decode(marked) > 0) == payloads).mean() > 0.95
    assert -10 * np.log10(np.square(marked - covers).mean()) > 40


def test_the_residual_means_little_on_another_picture(
    watermark: RivaGan, payloads: npt.NDArray[np.uint8]
) -> None:
    sources, targets = scenes(2), scenes(2, seed=9)
    residuals = watermark.embed(sources, payloads) - sources
    forged = eight_bit(targets + residuals)
    assert ((watermark.decode(forged) > 0) == payloads).mean() < 0.75


def test_the_torch_decoder_agrees(watermark: RivaGan) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    images = scenes(2)
    with torch.no_grad():
        expected = watermark.decoder_module()(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(watermark.decode(images), expected, rtol=1e-5, atol=1e-4)


def test_the_torch_encoder_agrees(watermark: RivaGan, payloads: npt.NDArray[np.uint8]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    images = scenes(2)
    with torch.no_grad():
        inputs = torch.from_numpy(images), torch.from_numpy(payloads)
        expected = watermark.encoder_module()(*inputs).numpy()
    np.testing.assert_allclose(watermark.embed(images, payloads), expected, atol=1e-5)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_the_network_is_the_published_one(part: str) -> None:
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
    assert layout == published_layouts.rivagan(part)


def initializers(graph: bytes) -> dict[str, npt.NDArray[np.float32]]:
    onnx = pytest.importorskip("onnx")
    held = onnx.load_from_string(graph).graph.initializer
    return {values.name: onnx.numpy_helper.to_array(values) for values in held}


@pytest.mark.parametrize(("part", "graph"), [("encoder", ENCODER), ("decoder", DECODER)])
def test_the_graphs_have_the_published_layout(watermark: RivaGan, part: str, graph: str) -> None:
    held = initializers((ASSET.locate() / graph).read_bytes())
    shapes = {name: values.shape for name, values in held.items() if not name.isdigit()}
    layout = dict(published_layouts.rivagan(part))
    assert shapes == {n: s for n, s in layout.items() if not n.endswith("num_batches_tracked")}


def test_weights_go_into_the_graphs_and_come_back(watermark: RivaGan, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("setting", [{"bits": 16}, {"kernel": 7}, {"fixed_attention": True}])
def test_a_network_of_other_settings_does_not_go_into_the_graphs(setting: dict[str, int]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from coverlock_plugins.rivagan.network import RivaganNetwork, into_onnx

    network = RivaganNetwork(**{"size": 32, **setting})
    with pytest.raises(CoverLockError, match="published graphs of RivaGAN are for .*'kernel': 11"):
        into_onnx(network, Path("any.onnx"), "encoder")


def test_threads_may_share_one_watermark(watermark: RivaGan) -> None:
    images = scenes(2)
    expected = watermark.decode(images)
    with ThreadPoolExecutor(2) as pool:
        alone = list(pool.map(watermark.decode, np.split(images, 2)))
    np.testing.assert_allclose(np.concatenate(alone), expected, atol=1e-5)


def test_missing_graphs_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock fetch rivagan"):
        RivaGan()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for the two graphs."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    folder = tmp_path / f"rivagan-{ASSET.sha256[:12]}"
    folder.mkdir()
    return folder


def test_a_missing_runtime_names_the_extra(
    watermark: RivaGan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingModelError, match=r"coverlock-sdk\[cpu\]"):
        RivaGan()


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 64])
def test_damaged_graphs_are_refused(folder: Path, content: bytes | None) -> None:
    pytest.importorskip("onnxruntime")
    if content is not None:
        (folder / ENCODER).write_bytes(content)
    with pytest.raises(CorruptModelError, match="coverlock fetch rivagan"):
        RivaGan()


def test_a_truncated_graph_is_refused(
    watermark: RivaGan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {graph: (ASSET.locate() / graph).read_bytes() for graph in (ENCODER, DECODER)}
    folder = tmp_path / f"rivagan-{ASSET.sha256[:12]}"
    folder.mkdir()
    (folder / ENCODER).write_bytes(whole[ENCODER])
    (folder / DECODER).write_bytes(whole[DECODER][: len(whole[DECODER]) // 2])
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(CorruptModelError, match=DECODER):
        RivaGan()
