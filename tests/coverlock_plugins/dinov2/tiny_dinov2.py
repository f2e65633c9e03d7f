"""A DINOv2 as small as it can be, under Meta's names, and what it should compute."""

import torch
from torch import Tensor
from torch.nn import functional as f

from coverlock_plugins.dinov2.hash import Variant

WIDTH, LAYERS, HEADS = 24, 2, 3


def variant(gated: bool = False, sha256: str = "") -> Variant:
    return Variant("nobody/tiny", WIDTH, LAYERS, HEADS, "main", sha256, gated)


def original_weights(gated: bool = False) -> dict[str, Tensor]:
    """Random weights under the names and in the shapes of the original DINOv2 files."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
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


def kept_weights(gated: bool = False) -> dict[str, Tensor]:
    """What the SDK keeps of them."""
    return {name: value for name, value in original_weights(gated).items() if name != "mask_token"}


def hub_weights(gated: bool = False) -> dict[str, Tensor]:
    """The same weights as the Hugging Face hub publishes them, its names written out."""
    state = original_weights(gated)
    hub = {
        "embeddings.cls_token": state["cls_token"],
        "embeddings.mask_token": state["mask_token"],
        "embeddings.position_embeddings": state["pos_embed"],
        "embeddings.patch_embeddings.projection.weight": state["patch_embed.proj.weight"],
        "embeddings.patch_embeddings.projection.bias": state["patch_embed.proj.bias"],
        "layernorm.weight": state["norm.weight"],
        "layernorm.bias": state["norm.bias"],
    }
    layers = {"norm1": "norm1", "norm2": "norm2", "attention.output.dense": "attn.proj"}
    if gated:
        layers |= {"mlp.weights_in": "mlp.w12", "mlp.weights_out": "mlp.w3"}
    else:
        layers |= {"mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
    for number in range(LAYERS):
        ours, theirs = f"blocks.{number}", f"encoder.layer.{number}"
        for part in (1, 2):
            hub[f"{theirs}.layer_scale{part}.lambda1"] = state[f"{ours}.ls{part}.gamma"]
        for kind in ("weight", "bias"):
            for to, of in layers.items():
                hub[f"{theirs}.{to}.{kind}"] = state[f"{ours}.{of}.{kind}"]
            together = state[f"{ours}.attn.qkv.{kind}"]
            for index, part in enumerate(("query", "key", "value")):
                rows = together[index * WIDTH : (index + 1) * WIDTH].clone()
                hub[f"{theirs}.attention.attention.{part}.{kind}"] = rows
    return hub


def reference(state: dict[str, Tensor], images: Tensor, gated: bool) -> Tensor:
    """The tokens of normalised pictures: DINOv2 written out in functions, at its own size."""
    x = f.conv2d(
        images, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], stride=14
    )
    x = torch.cat([state["cls_token"], x.flatten(2).transpose(1, 2)], 1) + state["pos_embed"]
    for number in range(LAYERS):
        w = {
            name.removeprefix(f"blocks.{number}."): value
            for name, value in state.items()
            if name.startswith(f"blocks.{number}.")
        }

        def linear(y: Tensor, name: str, w: dict[str, Tensor] = w) -> Tensor:
            return f.linear(y, w[f"{name}.weight"], w[f"{name}.bias"])

        y = f.layer_norm(x, (WIDTH,), w["norm1.weight"], w["norm1.bias"], 1e-6)
        shape = (3, HEADS, WIDTH // HEADS)
        q, k, v = linear(y, "attn.qkv").unflatten(2, shape).permute(2, 0, 3, 1, 4)
        attention = ((q @ k.transpose(-1, -2)) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        y = (attention @ v).transpose(1, 2).flatten(2)
        x = x + w["ls1.gamma"] * linear(y, "attn.proj")
        y = f.layer_norm(x, (WIDTH,), w["norm2.weight"], w["norm2.bias"], 1e-6)
        if gated:
            a, b = linear(y, "mlp.w12").chunk(2, dim=-1)
            y = linear(f.silu(a) * b, "mlp.w3")
        else:
            y = linear(f.gelu(linear(y, "mlp.fc1")), "mlp.fc2")
        x = x + w["ls2.gamma"] * y
    return f.layer_norm(x, (WIDTH,), state["norm.weight"], state["norm.bias"], 1e-6)
