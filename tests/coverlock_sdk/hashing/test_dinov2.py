from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.errors import CorruptModelError, MissingModelError  # noqa: E402
from coverlock_sdk.hashing import dinov2, network  # noqa: E402
from coverlock_sdk.models.digests import RECORD  # noqa: E402
from coverlock_sdk.plugin_calls import picture_logits  # noqa: E402

WIDTH, LAYERS = 24, 2


def original_weights(gated: bool) -> dict[str, torch.Tensor]:
    """Random weights under the names and in the shapes of the original DINOv2 files."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return 0.2 * torch.randn(shape, generator=generator)

    hidden = 64 if gated else 4 * WIDTH  # two thirds of 4 * width, rounded up to a multiple of 8
    state = {
        "cls_token": random(1, 1, WIDTH),
        "mask_token": random(1, WIDTH),
        "pos_embed": random(1, 1 + 37 * 37, WIDTH),
        "patch_embed.proj.weight": random(WIDTH, 3, 14, 14),
        "patch_embed.proj.bias": random(WIDTH),
        "norm.weight": 1 + random(WIDTH),
        "norm.bias": random(WIDTH),
    }
    layer = {
        "norm1": (WIDTH, None),
        "norm2": (WIDTH, None),
        "attn.qkv": (3 * WIDTH, WIDTH),
        "attn.proj": (WIDTH, WIDTH),
        **(
            {"mlp.w12": (2 * hidden, WIDTH), "mlp.w3": (WIDTH, hidden)}
            if gated
            else {"mlp.fc1": (hidden, WIDTH), "mlp.fc2": (WIDTH, hidden)}
        ),
    }
    for number in range(LAYERS):
        block = f"blocks.{number}."
        for name, (outputs, inputs) in layer.items():
            shape = (outputs,) if inputs is None else (outputs, inputs)
            state[f"{block}{name}.weight"] = random(*shape)
            state[f"{block}{name}.bias"] = random(outputs)
        state[f"{block}ls1.gamma"] = random(WIDTH)
        state[f"{block}ls2.gamma"] = random(WIDTH)
    return state


@pytest.fixture
def variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny ``dinov2-s``."""
    pytest.importorskip("transformers")
    tiny = dinov2.Variant("nobody/tiny", WIDTH, LAYERS, 3, "main", None)
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny)


@pytest.fixture(params=[False, True], ids=["mlp", "swiglu"])
def tiny(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a tiny DINOv2, imported from an original file."""
    pytest.importorskip("transformers")
    variant = dinov2.Variant("nobody/tiny", WIDTH, LAYERS, 3, "main", None, request.param)
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", variant)
    torch.save(original_weights(request.param), tmp_path / "original.pth")
    return dinov2.import_original("dinov2-s", tmp_path / "original.pth", tmp_path / "dinov2-s")


def test_pooling_is_mean_and_deviation_over_patches() -> None:
    patches = torch.tensor([[[1.0, 10.0], [3.0, 10.0]]])
    assert network.pool_patches(patches).tolist() == [[2.0, 10.0, 1.0, 0.0]]


def test_an_imported_backbone_computes_what_the_original_would(tiny: Path) -> None:
    backbone = dinov2.load_backbone("dinov2-s", tiny)
    gated = dinov2.VARIANTS["dinov2-s"].gated
    state = original_weights(gated)
    images = torch.rand(1, 3, 518, 518, generator=torch.Generator().manual_seed(1))
    backbone.size = 518  # at its own size no position is interpolated
    torch.testing.assert_close(
        backbone(images), reference(state, images, gated), atol=2e-4, rtol=1e-3
    )


def reference(state: dict[str, torch.Tensor], images: torch.Tensor, gated: bool) -> torch.Tensor:
    """DINOv2 written out in functions, with the original names."""
    f = torch.nn.functional
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    x = f.conv2d(
        (images - mean) / deviation,
        state["patch_embed.proj.weight"],
        state["patch_embed.proj.bias"],
        stride=14,
    )
    x = torch.cat([state["cls_token"], x.flatten(2).transpose(1, 2)], 1) + state["pos_embed"]
    for number in range(LAYERS):
        w = {
            name.removeprefix(f"blocks.{number}."): value
            for name, value in state.items()
            if name.startswith(f"blocks.{number}.")
        }

        def linear(y: torch.Tensor, name: str, w: dict[str, torch.Tensor] = w) -> torch.Tensor:
            return f.linear(y, w[f"{name}.weight"], w[f"{name}.bias"])

        y = f.layer_norm(x, (WIDTH,), w["norm1.weight"], w["norm1.bias"], 1e-6)
        q, k, v = linear(y, "attn.qkv").unflatten(2, (3, 3, WIDTH // 3)).permute(2, 0, 3, 1, 4)
        attention = ((q @ k.transpose(-1, -2)) / (WIDTH // 3) ** 0.5).softmax(-1)
        y = (attention @ v).transpose(1, 2).flatten(2)
        x = x + w["ls1.gamma"] * linear(y, "attn.proj")
        y = f.layer_norm(x, (WIDTH,), w["norm2.weight"], w["norm2.bias"], 1e-6)
        if gated:
            a, b = linear(y, "mlp.w12").chunk(2, dim=-1)
            y = linear(f.silu(a) * b, "mlp.w3")
        else:
            y = linear(f.gelu(linear(y, "mlp.fc1")), "mlp.fc2")
        x = x + w["ls2.gamma"] * y
    patches = f.layer_norm(x, (WIDTH,), state["norm.weight"], state["norm.bias"], 1e-6)[0, 1:]
    return torch.cat([patches.mean(0), patches.std(0, correction=0)])[None]


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingModelError, match="coverlock fetch dinov2-b"):
        dinov2.load_backbone("dinov2-b", tmp_path)


def test_a_missing_head_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingModelError, match="coverlock train hash --backbone dinov2-s"):
        dinov2.Dinov2Hash("dinov2-s", tmp_path)


def test_layouts_have_the_published_numbers_of_parameters() -> None:
    millions = {
        name: round(sum(map(torch.numel, dinov2.original_layout(variant).values())) / 1e6, 1)
        for name, variant in dinov2.VARIANTS.items()
    }
    expected = {"dinov2-s": 22.1, "dinov2-b": 86.6, "dinov2-l": 304.4, "dinov2-g": 1136.5}
    assert millions == expected


class Payload:
    """Creates a folder when it is unpickled."""

    def __init__(self, trap: Path) -> None:
        self.trap = trap

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.trap),)


def without(name: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in original_weights(False).items() if key != name}


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ([1, 2], "map names to tensors"),
        ({"model": original_weights(False)}, "map names to tensors"),
        (without("norm.bias"), "does not hold the weights of 'dinov2-s': 1 missing: norm.bias"),
        (original_weights(False) | {"head.weight": torch.zeros(2)}, "1 unknown: head.weight"),
        (original_weights(False) | {"cls_token": torch.zeros(1, 1, 768)}, r"\(1, 1, 768\) instead"),
        (original_weights(False) | {"blocks.0.attn.qkv.bias": torch.tensor(1.0)}, r"qkv.bias \(\)"),
        (original_weights(True), "missing: .*mlp.fc1"),
        (
            original_weights(False) | {"register_tokens": torch.zeros(1, 4, WIDTH)},
            "register tokens, but 'dinov2-s' has none: import the file without '_reg4'",
        ),
    ],
    ids=["list", "nested", "missing", "unknown", "shape", "qkv", "giant", "registers"],
)
def test_a_file_that_is_something_else_is_refused(
    held: object, sentence: str, variant: None, tmp_path: Path
) -> None:
    torch.save(held, tmp_path / "file.pth")
    with pytest.raises(CorruptModelError, match=sentence):
        dinov2.import_original("dinov2-s", tmp_path / "file.pth", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_or_a_payload_is_refused(variant: None, tmp_path: Path) -> None:
    file, trap = tmp_path / "file.pth", tmp_path / "trap"
    torch.save(original_weights(False), file)
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(CorruptModelError, match="truncated"):
        dinov2.import_original("dinov2-s", file, tmp_path / "out")
    torch.save(original_weights(False) | {"norm.bias": Payload(trap)}, file)
    with pytest.raises(CorruptModelError, match="more than weights"):
        dinov2.import_original("dinov2-s", file, tmp_path / "out")
    assert not trap.exists()


def test_an_interrupted_import_does_not_look_finished(
    variant: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    torch.save(original_weights(False), tmp_path / "file.pth")
    dinov2.import_original("dinov2-s", tmp_path / "file.pth")
    assert dinov2.HubModel("dinov2-s").is_present

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("safetensors.torch.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dinov2.import_original("dinov2-s", tmp_path / "file.pth")
    assert not dinov2.HubModel("dinov2-s").is_present


def test_a_backbone_with_a_missing_tensor_is_refused(tiny: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(tiny / "model.safetensors")
    del state["layernorm.weight"]
    save_file(state, tiny / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CorruptModelError, match="SHA-256 differs"):
        dinov2.load_backbone("dinov2-s", tiny)
    (tiny / RECORD).unlink()
    with pytest.raises(CorruptModelError, match=r"layernorm\.weight"):
        dinov2.load_backbone("dinov2-s", tiny)


@pytest.fixture
def whole(tiny: Path) -> dinov2.Dinov2Hash:
    """The tiny DINOv2 with a head."""
    from safetensors.torch import save_file

    from coverlock_sdk.hashing.network import HashHead

    save_file(HashHead(2 * WIDTH).state_dict(), tiny / "head.safetensors")
    card = {"calibration": {"scale": 2.0, "power": 0.5}}
    (tiny / "head.json").write_text(json.dumps(card))
    return dinov2.Dinov2Hash("dinov2-s", tiny)


def test_the_whole_hash_runs_with_a_head_beside_its_backbone(whole: dinov2.Dinov2Hash) -> None:
    assert whole.calibration.power == 0.5
    assert picture_logits(whole, np.zeros((50, 60, 3), np.uint8)).shape == (1, 256)


def test_the_module_is_the_hash_with_its_positions_fixed(whole: dinov2.Dinov2Hash) -> None:
    images = np.random.default_rng(0).random((2, 3, 224, 224), np.float32)
    before = whole.logits(images)
    for _ in range(2):
        with torch.no_grad():
            after = whole.module()(torch.from_numpy(images)).numpy()
        np.testing.assert_array_equal(after, before)


@pytest.mark.slow
def test_an_exported_backbone_has_nothing_left_to_resize(whole: dinov2.Dinov2Hash) -> None:
    export = pytest.importorskip("coverlock_export.graphs")
    model = export.export_graph(
        whole.module(), [torch.zeros(1, 3, 224, 224)], ["x"], ["y"], "the hash"
    )
    assert "Resize" not in {node.op_type for node in model.graph.node}
