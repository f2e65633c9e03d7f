"""VINE: its layout against the published one, its conversion, and a tiny one from end to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

from safetensors.torch import load_file, save_file  # noqa: E402
from torch import nn  # noqa: E402

from coverlock_plugins.vine import Vine, weights  # noqa: E402
from coverlock_plugins.vine.network import (  # noqa: E402
    SKIPS,
    TIMESTEP,
    Decoder,
    Encoder,
    Layout,
    autoencoder,
    decode_latents,
    denoised,
    encode_pictures,
)
from coverlock_sdk.errors import CorruptModelError, MissingModelError  # noqa: E402
from tests.coverlock_plugins.scenes import scenes  # noqa: E402

TINY: dict[str, Any] = {
    "bits": 32,
    "side": 8,
    "autoencoder": (8, 8, 16, 16),
    "unet": (8, 8, 16, 16),
    "heads": (1, 1, 2, 2),
    "groups": 4,
    "context": 64,
    "depths": (1, 1, 1, 1),
    "widths": (8, 8, 16, 16),
    "classes": 20,
}


def tiny_networks() -> tuple[Encoder, Decoder]:
    torch.manual_seed(0)
    encoder, decoder = Encoder(Layout(**TINY)).eval(), Decoder(Layout(**TINY)).eval()
    nn.init.normal_(encoder.prompt)
    return encoder, decoder


def converted(encoder: Encoder, decoder: Decoder, folder: Path) -> Path:
    """A folder of parts, as the import writes it."""
    parts = {name: encoder.get_submodule(name).state_dict() for name in weights.ENCODER_PARTS}
    parts |= {"decoder": decoder.convnext.state_dict(), "prompt": {"prompt": encoder.prompt}}
    for name, state in parts.items():
        save_file(state, folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def networks():
    return tiny_networks()


@pytest.fixture(scope="module")
def folder(networks, tmp_path_factory):
    return converted(*networks, tmp_path_factory.mktemp("vine"))


def shapes(state: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


# The published layout


def test_the_diffusion_networks_are_those_of_sd_turbo():
    with torch.device("meta"):
        encoder = Encoder(Layout())
    unet = shapes(encoder.unet.state_dict())
    assert sum(np.prod(shape) for shape in unet.values()) == 865_910_724
    assert unet["conv_in.weight"] == (320, 4, 3, 3)
    attention = "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight"
    assert unet[attention] == (320, 1024)
    assert unet["mid_block.attentions.0.proj_in.weight"] == (1280, 1280)
    vae = shapes(encoder.vae_a2b.state_dict())
    skips = {name: vae.pop(name) for name in list(vae) if ".skip_conv_" in name}
    assert sum(np.prod(shape) for shape in vae.values()) == 83_653_863
    assert vae["quant_conv.weight"] == (8, 8, 1, 1)
    assert vae["encoder.mid_block.attentions.0.to_q.weight"] == (512, 512)
    widths = {1: (512, 512), 2: (512, 256), 3: (512, 128), 4: (256, 128)}
    weights = {f"decoder.skip_conv_{n}.weight": (*both, 3, 3) for n, both in widths.items()}
    biases = {f"decoder.skip_conv_{n}.bias": both[:1] for n, both in widths.items()}
    assert skips == weights | biases


# What the networks compute


def test_the_one_step_is_that_of_the_ddpm_scheduler():
    scheduler = diffusers.DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        timestep_spacing="trailing",
    )
    scheduler.set_timesteps(1)
    latent, noise = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8)
    step = scheduler.step(noise, TIMESTEP, latent).prev_sample
    torch.testing.assert_close(denoised(latent, noise), step, rtol=1e-3, atol=1e-4)


def test_without_skips_the_autoencoder_is_the_one_of_diffusers():
    torch.manual_seed(1)
    vae = autoencoder(Layout(**TINY)).eval()
    pictures = torch.rand(1, 3, 64, 64) * 2 - 1
    with torch.inference_mode():
        latents, skips = encode_pictures(vae, pictures)
        expected = vae.encode(pictures).latent_dist.mode() * 0.18215
        torch.testing.assert_close(latents, expected)
        assert [tuple(skip.shape[1:]) for skip in skips] == [
            (8, 64, 64),
            (8, 32, 32),
            (8, 16, 16),
            (16, 8, 8),
        ]
        with_skips = decode_latents(vae, latents, skips)
        for name in SKIPS:
            torch.nn.init.zeros_(vae.decoder.get_submodule(name).weight)
            torch.nn.init.zeros_(vae.decoder.get_submodule(name).bias)
        without = decode_latents(vae, latents, skips)
        torch.testing.assert_close(without, vae.decode(latents / 0.18215).sample)
        assert not torch.allclose(with_skips, without)


# The plugin, which keeps the promises of the conformance kit in a file of its own


def test_missing_weights_name_the_command(tmp_path, folder):
    with pytest.raises(MissingModelError, match="coverlock import vine FILE"):
        Vine(weights=tmp_path)
    decoder_only = tmp_path / "verifier"
    decoder_only.mkdir()
    (decoder_only / "decoder.safetensors").write_bytes(
        (folder / "decoder.safetensors").read_bytes()
    )
    watermark = Vine(size=64, weights=decoder_only, **TINY)
    assert watermark.decode(scenes(1)).shape == (1, 32)
    with pytest.raises(
        MissingModelError, match="lacks parts of VINE .sec_encoder, unet, vae_a2b, prompt."
    ):
        watermark.embed(scenes(1), np.zeros((1, 32), np.uint8))


# Importing


@pytest.fixture
def published(networks, tmp_path):
    """The files as their authors publish them, of a tiny VINE."""
    encoder, decoder = networks
    source = tmp_path / "published"
    source.mkdir()
    torch.save(encoder.sec_encoder.state_dict(), source / "ConditionAdaptor.pth")
    torch.save(encoder.unet.state_dict(), source / "UNet2DConditionModel.pth")
    torch.save(encoder.vae_a2b.state_dict(), source / "vae.pth")
    torch.save(decoder.convnext.state_dict(), source / "CustomConvNeXt.pth")
    hub = {n: v for n, v in encoder.state_dict().items() if n != "prompt"}
    save_file(hub, source / "enc.safetensors")
    save_file(decoder.state_dict(), source / "dec.safetensors")
    return source


AUTHORS = ("ConditionAdaptor.pth", "UNet2DConditionModel.pth", "vae.pth", "CustomConvNeXt.pth")
HUB = ("enc.safetensors", "dec.safetensors")


@pytest.mark.parametrize("files", [AUTHORS, HUB])
def test_published_files_are_recognised_and_converted(files, published, folder, tmp_path):
    target = tmp_path / "converted"
    for name in files:
        weights.import_official(published / name, target, Layout(**TINY))
    for part in ("sec_encoder", "unet", "vae_a2b", "decoder"):
        ours = load_file(target / f"{part}.safetensors")
        saved = load_file(folder / f"{part}.safetensors")
        assert ours.keys() == saved.keys()
        assert all(torch.equal(ours[name], saved[name]) for name in saved)
    assert not list(target.glob(".*"))


def test_what_does_not_belong_is_named(published, tmp_path):
    state = load_file(published / "enc.safetensors")
    save_file({**state, "discriminator.weight": torch.zeros(2)}, tmp_path / "more.safetensors")
    with pytest.raises(CorruptModelError, match="1 unknown: discriminator.weight"):
        weights.import_official(tmp_path / "more.safetensors", tmp_path / "vine", Layout(**TINY))
    assert not (tmp_path / "vine").exists()
