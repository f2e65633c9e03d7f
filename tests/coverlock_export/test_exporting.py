import json
from hashlib import sha256

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from torch import nn

from coverlock_export.exporting import (
    ExportRequest,
    export_bundle,
    export_encoder,
)
from coverlock_export.graphs import (
    Preprocessing,
    Resampling,
    Verification,
    export_graph,
    serialise,
)
from coverlock_export.parity import hold_to_limits
from coverlock_export.precision import to_fp16, to_int8
from coverlock_sdk import Embedder, ImageHash, Verifier, wrap
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import (
    BundleError,
    UnknownNameError,
)
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.hashing.shipped import shipped_file
from coverlock_sdk.images.conversion import read
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.verifier.onnx_runtime import cpu_session
from coverlock_sdk.verifier.verifier import Settings
from tests.conftest import AdditiveMark

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
from coverlock_plugins.dinov2.head import Backbone, HashNetwork, pool_patches  # noqa: E402
from tests.conftest import plugin_of  # noqa: E402
from tests.coverlock_sdk.kit_subjects import AnySize, Sound  # noqa: E402

SIZE = (128, 128)


class Decoder(nn.Module):
    """The additive watermark's decoder as a convolution and a linear layer."""

    def __init__(self, patterns: np.ndarray) -> None:
        super().__init__()
        kernel = -np.full((1, 1, 3, 3), 1 / 9, np.float32)
        kernel[..., 1, 1] += 1
        self.sharpen = nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
        self.sharpen.weight.data = torch.from_numpy(kernel)
        self.correlate = nn.Linear(patterns.shape[1], len(patterns), bias=False)
        self.correlate.weight.data = torch.from_numpy(patterns / 10)

    def forward(self, images):
        grey = images.mean(dim=1, keepdim=True)
        return self.correlate(self.sharpen(grey).flatten(1))


class Encoder(nn.Module):
    def __init__(self, patterns: np.ndarray, strength: float) -> None:
        super().__init__()
        scale = 2 * strength / np.sqrt(len(patterns))
        self.register_buffer("patterns", torch.from_numpy((scale * patterns).astype(np.float32)))

    def forward(self, images, payloads):
        mark = ((2 * payloads - 1) @ self.patterns).unflatten(1, (1, *SIZE))
        return (images + mark).clamp(0, 1)


class ExportableMark(AdditiveMark):
    def decoder_module(self):
        return Decoder(self.patterns)

    def encoder_module(self):
        return Encoder(self.patterns, self.strength)


class Pooled(Backbone):
    """A network whose last feature map, of eight channels, is pooled as the paper does."""

    size, features = 64, 16

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images):
        return pool_patches(self.model(images).flatten(2).transpose(1, 2))


class NetworkHash(ImageHash):
    """A network of the kind that the paper hashes with."""

    name, input_size = "network", (64, 64)

    def __init__(self) -> None:
        torch.manual_seed(1)
        layers = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.Conv2d(8, 8, 1))
        self.network = HashNetwork(Pooled(layers)).eval()

    def logits(self, images):
        with torch.no_grad():
            return self.network(torch.from_numpy(images)).numpy()

    def module(self):
        return self.network


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty picture files of several sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, picture in enumerate(natural_pictures(40, (140, 150), seed=5)):
        Image.fromarray(picture[: 128 + number % 8]).save(folder / f"{number:02}.png")
    return folder


@pytest.fixture(scope="module")
def lock():
    return wrap(ExportableMark())


def request_for(lock, folder, **changes) -> ExportRequest:
    return ExportRequest(lock, sorted(folder.iterdir()), **changes)


@pytest.fixture(scope="module")
def bundle(lock, folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("exported") / "bundle"
    return export_bundle(request_for(lock, folder), out)


@pytest.fixture(scope="module")
def network_bundle(folder, tmp_path_factory):
    """The same with a hash that is a network."""
    out = tmp_path_factory.mktemp("exported") / "bundle"
    lock = wrap(ExportableMark(), hash=NetworkHash())
    return export_bundle(request_for(lock, folder, force=True), out)


@pytest.fixture(scope="module")
def pictures(folder):
    return np.stack([read(path).to_bytes(SIZE) for path in sorted(folder.iterdir())[:8]])


def graph_of(bundle, name: str) -> onnx.ModelProto:
    return onnx.load_from_string(bundle.read(name))


def test_a_bundle_answers_as_the_lock_does(bundle, lock, folder):
    covers = [np.asarray(Image.open(path)) for path in sorted(folder.iterdir())[:6]]
    marked = [lock.embed(cover, "alice") for cover in covers]
    with Verifier.open(bundle, "cpu", settings=Settings(threads=1)) as verifier:
        for pictures in (marked, covers):
            expected = lock.verify(pictures, "alice")
            answers = verifier.verify(pictures, "alice")
            assert [a.accepted for a in answers] == [e.accepted for e in expected]
        assert all(verifier.verify(marked, "alice"))
        assert not any(verifier.verify(covers, "alice"))


def test_every_precision_answers_and_its_agreement_is_in_the_manifest(bundle, pictures):
    figures = bundle.manifest.parity["graphs"]
    assert list(figures) == ["torch", "fp32", "fp16", "int8"]
    for name in ("torch", "fp32"):
        assert figures[name]["all_bits"] >= 0.9999
        assert figures[name]["verdicts"] == 1
    assert [figure["hash_bits"] for figure in figures.values()] == [1] * 4
    assert max(figure["max_hash_difference"] for figure in figures.values()) < 1e-5
    assert figures["int8"]["photos"] == 20
    assert 0 < figures["fp32"]["accepted"] < 20
    for precision in ("fp16", "int8"):
        with Verifier.open(
            bundle, "cpu", settings=Settings(precision=precision, threads=1)
        ) as verifier:
            assert verifier.logits(pictures)[1].shape == (8, 3, 128, 128)


def test_the_manifest_pins_a_hash_that_the_host_computes(bundle, network_bundle):
    octave, network = (json.loads(b.manifest.to_json()) for b in (bundle, network_bundle))
    weights = shipped_file("octave.safetensors").read_bytes()
    assert (octave["bands"], octave["hash_digest"]) == (
        [192, 320, 512],
        sha256(weights).hexdigest(),
    )
    assert (network["bands"], network["hash_digest"]) == ([256], None)
    assert set(bundle.manifest.graphs) == {"verify", "embed"}
    assert set(network_bundle.manifest.graphs) == {"verify", "hash", "embed"}


def test_a_bundle_with_a_network_that_hashes_marks_and_verifies(network_bundle, pictures):
    marked = Embedder.open(network_bundle, threads=1).embed(pictures[:2], "alice")
    with Verifier.open(network_bundle, "cpu", settings=Settings(threads=1)) as verifier:
        assert verifier.logits(pictures)[1].shape == (8, 256)
        assert all(verifier.verify(marked, "alice"))
        assert not any(verifier.verify(pictures[:2], "alice"))


@pytest.mark.parametrize("watermark", [Sound(), AnySize()], ids=lambda watermark: watermark.name)
def test_a_watermark_that_is_no_network_names_its_plugin(watermark, folder, tmp_path):
    lock, name = wrap(watermark), watermark.name
    request = request_for(lock, folder, precisions=("fp32",))
    plugin_manager.cache_clear()
    try:
        with pytest.raises(UnknownNameError, match=f"no watermark '{name}'"):
            export_bundle(request, tmp_path / "bundle")
        plugin_manager().add(name, plugin_of(type(watermark))())
        with pytest.raises(BundleError, match="comes from this application.*make it a plugin"):
            export_bundle(request, tmp_path / "bundle")
        assert list(tmp_path.iterdir()) == []
        [plugin] = [plugin for plugin in plugin_manager().plugins if plugin.name == name]
        plugin.distribution = "plain-mark 2.1"
        bundle = export_bundle(request, tmp_path / "bundle")
        assert bundle.manifest.size == watermark.native_size
        assert set(bundle.manifest.files) == {"hash.onnx"}
        pictures = [read(path).to_bytes() for path in sorted(folder.iterdir())[:6]]
        marked = [lock.embed(picture, "alice") for picture in pictures]
        with Verifier.open(bundle, "cpu", settings=Settings(threads=1)) as verifier:
            assert all(verifier.verify(marked, "alice"))
            assert not any(verifier.verify(pictures, "alice"))
            assert verifier.logits([])[0].shape == (0, 64)
            ours, theirs = verifier.logits(marked)[0], lock.logits(marked)[0]
            assert np.abs(ours - theirs).max() < 1e-5
    finally:
        plugin_manager.cache_clear()


def test_graphs_begin_with_a_cast_and_use_no_operation_that_tensorrt_refuses(bundle):
    for name in bundle.manifest.files:
        graph = graph_of(bundle, name).graph
        assert {opset.version for opset in graph_of(bundle, name).opset_import} == {20}
        first_users = [n for n in graph.node if INPUT in n.input]
        assert [node.op_type for node in first_users] == ["Cast"], name
        used = {node.op_type for node in graph.node}
        assert not used & {"Resize", "BitwiseXor", "DynamicQuantizeLinear", "MatMulInteger"}


def test_int8_is_symmetric_and_spares_the_projector_and_the_first_layers(network_bundle):
    graph = graph_of(network_bundle, "verify.int8.onnx").graph
    values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    quantisers = [n for n in graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert quantisers
    for node in quantisers:
        assert values[node.input[2]].dtype == np.int8
        assert not values[node.input[2]].any()
    made_by = {output: node.op_type for node in graph.node for output in node.output}
    [projector] = [n for n in graph.node if OUTPUTS[1] in n.output]
    assert "DequantizeLinear" not in {made_by.get(name) for name in projector.input}
    convolutions = [n for n in graph.node if n.op_type == "Conv"]
    quantised = [
        "DequantizeLinear" in {made_by.get(name) for name in n.input} for n in convolutions
    ]
    assert sorted(quantised) == [False, False, True]  # two of them see the picture itself


class Attending(nn.Module):
    """Two matrix products over the tokens of a picture, as transformers have them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed, self.mix = nn.Conv2d(3, 8, 8, 8), nn.Linear(8, 8)

    def forward(self, images):
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        return self.mix(tokens).transpose(1, 2).unflatten(2, (8, 8))


def test_int8_spares_a_transformer_that_hashes():
    hashing = HashNetwork(Pooled(Attending())).eval()
    decoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(2), nn.Linear(126 * 126, 3))
    network = Verification(decoder, hashing, SIZE, (64, 64))
    example = torch.zeros(1, *SIZE, 3, dtype=torch.uint8)
    master = export_graph(network, [example], [INPUT], OUTPUTS, "the network")
    reduced = to_int8(master, natural_pictures(4, SIZE, seed=9))
    seen = natural_pictures(4, SIZE, seed=8)
    expected, found = (
        cpu_session(serialise(graph), 1).run(OUTPUTS, {INPUT: seen}) for graph in (master, reduced)
    )
    assert np.abs(found[0] - expected[0]).max() > 1e-5
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)


def test_fp16_keeps_inputs_outputs_and_the_projector_in_full(network_bundle):
    graph = graph_of(network_bundle, "verify.fp16.onnx").graph
    kinds = {t.name: t.data_type for t in graph.initializer}
    assert onnx.TensorProto.FLOAT16 in kinds.values()
    assert {o.type.tensor_type.elem_type for o in graph.output} == {onnx.TensorProto.FLOAT}
    [projector] = [n for n in graph.node if OUTPUTS[1] in n.output]
    assert kinds[projector.input[1]] == onnx.TensorProto.FLOAT


def test_no_precision_touches_the_thumbnail(pictures):
    """The host computes the code from it, whose finest band lives on small differences."""
    decoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten())
    network = Verification(decoder, OctaveCode().module(), (96, 112), (128, 128))
    seen = np.ascontiguousarray(pictures[:, :96, :112])
    master = export_graph(network, [torch.from_numpy(seen[:1])], [INPUT], OUTPUTS, "the network")
    expected = cpu_session(serialise(master), 1).run(OUTPUTS, {INPUT: seen})
    on_host = np.stack([read(picture).view((128, 128)) for picture in seen])
    np.testing.assert_allclose(expected[1], on_host, atol=2e-6)
    for reduced in (to_fp16(master), to_int8(master, seen)):
        decoded, described = cpu_session(serialise(reduced), 1).run(OUTPUTS, {INPUT: seen})
        assert np.abs(decoded - expected[0]).max() > 1e-5
        np.testing.assert_array_equal(described, expected[1])


def test_the_encoder_adds_what_the_plugin_adds(bundle, lock, pictures):
    assert bundle.manifest.parity["embed"]["max_difference"] < 1e-4
    payloads = np.random.default_rng(1).integers(0, 2, (8, lock.bits), dtype=np.uint8)
    session = cpu_session(bundle.read("embed.onnx"), 1)
    [residuals] = session.run(None, {INPUT: pictures, "payloads": payloads})
    views = np.moveaxis(pictures, -1, 1).astype(np.float32) / 255
    np.testing.assert_allclose(views + residuals, lock.watermark.embed(views, payloads), atol=1e-5)


@pytest.mark.parametrize("source", [(96, 128), (300, 201), (64, 64), (512, 640)])
def test_the_host_and_the_module_resample_alike(source):
    picture = natural_pictures(1, source, seed=2)[0]
    network = nn.Sequential(Preprocessing(), Resampling(source, (64, 64)))
    with torch.no_grad():
        in_torch = network(torch.from_numpy(picture)[None])[0].numpy()
    np.testing.assert_allclose(in_torch, read(picture).view((64, 64)), atol=2e-6)


def test_an_fp32_graph_that_answers_otherwise_fails_whatever_is_forced(
    lock, folder, tmp_path, monkeypatch
):
    class Other(ExportableMark):
        def decoder_module(self):
            return Decoder(self.patterns[::-1].copy())

    other = wrap(Other())
    request = request_for(other, folder, precisions=("fp32",), force=True)
    with pytest.raises(BundleError, match="'torch' does not answer as the SDK does"):
        export_bundle(request, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "figure", "value", "passes", "passes_by_force"),
    [
        ("fp32", "all_bits", 0.9999, True, True),
        ("fp32", "all_bits", 0.9998, False, False),
        ("fp32", "verdicts", 0.9999, False, False),
        ("fp16", "bits", 0.99, True, True),
        ("fp16", "bits", 0.989, False, True),
        ("int8", "verdicts", 0.999, True, True),
        ("int8", "verdicts", 0.998, False, True),
        ("int8", "all_bits", 0.7, True, True),
    ],
)
def test_the_gate(name, figure, value, passes, passes_by_force):
    figures = {"photos": 500, "bits": 1.0, "all_bits": 1.0, "verdicts": 1.0, figure: value}
    for force, passing in ((False, passes), (True, passes_by_force)):
        if passing:
            hold_to_limits({name: figures}, force)
        else:
            with pytest.raises(BundleError, match=f"'{name}' does not answer"):
                hold_to_limits({name: figures}, force)


def test_an_encoder_that_does_not_export_is_left_out_with_its_reason(pictures, additive):
    class Branching(nn.Module):
        def forward(self, images, payloads):
            return images * 2 if float(payloads.sum()) > 3 else images

    class Stubborn(ExportableMark):
        def encoder_module(self):
            return Branching()

    content, figures = export_encoder(Stubborn(), pictures, seed=0)
    assert content is None
    assert "cannot be exported" in figures["left_out"]
    content, figures = export_encoder(additive, pictures, seed=0)
    assert content is None
    assert "no encoder_module" in figures["left_out"]


def test_graphs_hold_no_trace_of_the_machine_that_made_them(bundle):
    for name in bundle.manifest.files:
        assert b".py" not in bundle.read(name)


def test_an_export_says_which_package_verifying_machines_need(folder, tmp_path, additive_plugin):
    [plugin] = [plugin for plugin in plugin_manager().plugins if plugin.name == "additive"]
    plugin.distribution = "additive-mark 1.2"
    arguments = ["export", "additive:hash=octave", "--precision", "fp32", "--images", str(folder)]
    answer = CliRunner().invoke(build_cli(), [*arguments, "--out", str(tmp_path / "bundle")])
    assert "exporting fp32" in answer.stderr
    assert answer.exit_code == 0, answer.output
    assert "verifying machines need additive-mark==1.2 as well" in answer.output
