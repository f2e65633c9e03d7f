"""VINE's weights on disk: converted from the published files, and loaded again.

A folder holds one file for each part of the system, since they are published apart:

    sec_encoder, unet, vae_a2b    the encoder (from one file of the hub, or three of the authors)
    prompt                        what SD-Turbo's text encoder says of the empty prompt
    decoder                       the ConvNeXt
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from coverlock_plugins.vine.network import Decoder, Encoder, Layout
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.checkpoints import read_checkpoint, require_match, require_weights

State = dict[str, Tensor]

ENCODER_PARTS = ("sec_encoder", "unet", "vae_a2b")
PREFIXES = {
    "sec_encoder.": "sec_encoder",
    "unet.": "unet",
    "vae_a2b.": "vae_a2b",
    "vae_enc.vae.": "vae_a2b",
    "vae_dec.vae.": "vae_a2b",
    "convnext.": "decoder",
}
"""What names begin with in the files of the hub, where the autoencoder has three names."""

START, END, PADDING = 49406, 49407, 0
"""Tokens of Stable Diffusion 2, which SD-Turbo is made of."""
VOCABULARY = "embeddings.token_embedding.weight"


def import_official(file: Path, folder: Path, layout: Layout) -> Path:
    """Convert one published file, whichever it is, and return the folder of all parts."""
    weights = require_weights(read_checkpoint(file), file)
    if VOCABULARY in _text_encoder(weights):
        _write(folder, "prompt", {"prompt": _empty_prompt(weights, file, layout)})
        return folder
    expected = _expected(layout)
    found = _split(weights, expected)
    if not found:
        raise CorruptModelError(
            f"{file} is not a part of VINE: its tensors have names like '{next(iter(weights))}'"
        )
    for part, state in found.items():
        require_match(state, expected[part], file, of=f"the {part} of VINE")
    for part, state in found.items():
        _write(folder, part, state)
    return folder


def load_encoder(folder: Path, layout: Layout) -> Encoder:
    """The encoder, from its four files in ``folder``."""
    require_parts(folder, (*ENCODER_PARTS, "prompt"))
    with torch.device("meta"):  # so that four gigabytes are not filled twice
        encoder = Encoder(layout)
    for part in ENCODER_PARTS:
        _load(encoder.get_submodule(part), folder, part)
    path = folder / "prompt.safetensors"
    prompt = require_weights(read_checkpoint(path), path)
    require_match(prompt, {"prompt": encoder.prompt}, path, of="the prompt of VINE")
    encoder.prompt = prompt["prompt"]
    return encoder.eval()


def load_decoder(folder: Path, layout: Layout) -> Decoder:
    """The decoder, from its file in ``folder``."""
    require_parts(folder, ("decoder",))
    decoder = Decoder(layout)
    _load(decoder.convnext, folder, "decoder")
    return decoder.eval()


def require_parts(folder: Path, parts: Iterable[str]) -> None:
    """Say which parts are not in ``folder``, and how to get them there."""
    missing = [part for part in parts if not (folder / f"{part}.safetensors").is_file()]
    if missing:
        raise MissingModelError(
            f"{folder} lacks parts of VINE ({', '.join(missing)}): convert the published files, "
            "licensed for non-commercial use only, with 'coverlock import vine FILE...'"
        )


def _expected(layout: Layout) -> dict[str, State]:
    """The names and shapes of every part."""
    with torch.device("meta"):
        encoder, decoder = Encoder(layout), Decoder(layout)
    parts = {part: encoder.get_submodule(part).state_dict() for part in ENCODER_PARTS}
    return {**parts, "decoder": decoder.convnext.state_dict()}


def _split(weights: State, expected: Mapping[str, State]) -> dict[str, State]:
    """The parts in a file: named by their prefix, or all of it the part it has most names of."""
    parts: dict[str, State] = {}
    others: State = {}
    for name, value in weights.items():
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            others[name] = value
        else:
            parts.setdefault(PREFIXES[prefix], {})[name.removeprefix(prefix)] = value
    if parts:
        next(iter(parts.values())).update(others)  # where they will be found not to belong
        return parts
    shared = {part: len(state.keys() & weights.keys()) for part, state in expected.items()}
    likeliest = max(shared, key=lambda part: shared[part])
    return {likeliest: weights} if shared[likeliest] else {}


def _empty_prompt(weights: State, file: Path, layout: Layout) -> Tensor:
    """Run a CLIP text encoder, of the size that ``weights`` have, on the empty prompt."""
    from transformers import CLIPTextConfig, CLIPTextModel

    state = _text_encoder(weights)
    vocabulary, width = END + 1, layout.context
    if state[VOCABULARY].shape != (vocabulary, width):
        raise CorruptModelError(
            f"{file} is another text encoder than SD-Turbo's: its vocabulary has the shape "
            f"{tuple(state[VOCABULARY].shape)}, not {(vocabulary, width)}"
        )
    layers = {name.split(".")[2] for name in state if name.startswith("encoder.layers.")}
    inner = state.get("encoder.layers.0.mlp.fc1.bias", torch.empty(4 * width))
    model = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=inner.numel(),
            num_hidden_layers=len(layers),
            num_attention_heads=width // 64,
            hidden_act="gelu",
        )
    ).eval()
    require_match(state, _text_encoder(model.state_dict()), file, of="SD-Turbo's text encoder")
    names = {name.removeprefix("text_model."): name for name in model.state_dict()}
    model.load_state_dict({names[name]: value for name, value in state.items()}, strict=False)
    tokens = torch.full((1, layout.tokens), PADDING)
    tokens[0, :2] = torch.tensor([START, END])
    with torch.inference_mode():
        return model(tokens).last_hidden_state


def _text_encoder(weights: Mapping[str, Tensor]) -> State:
    """A text encoder's weights by the names that all versions of transformers agree on."""
    named = {name.removeprefix("text_model."): value for name, value in weights.items()}
    return {name: value for name, value in named.items() if not name.endswith("position_ids")}


def _load(module: nn.Module, folder: Path, part: str) -> None:
    path = folder / f"{part}.safetensors"
    state = require_weights(read_checkpoint(path), path)
    require_match(state, module.state_dict(), path, of=f"the {part} of VINE")
    module.load_state_dict(state, assign=True)


def _write(folder: Path, part: str, state: Mapping[str, Tensor]) -> None:
    """Whole or not at all: a part may take minutes to write, or fill the disk."""
    scratch = folder / f".{part}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: value.float().contiguous() for name, value in state.items()}, scratch)
        scratch.replace(folder / f"{part}.safetensors")
    except (OSError, SafetensorError) as error:
        raise MissingModelError(
            f"cannot write to {folder} ({error}): set COVERLOCK_MODELS to a folder with 5 GB free"
        ) from error
    finally:
        scratch.unlink(missing_ok=True)
