"""VINE: its layout against the published one, its conversion, and a tiny one from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

from safetensors.torch import load_file, save_file  # noqa: E402

from coverlock_plugins.networks.weights import save_network  # noqa: E402
from coverlock_plugins.vine import Vine, import_official, weights  # noqa: E402
from coverlock_plugins.vine.network import (  # noqa: E402
    SKIPS,
    TIMESTEP,
    Encoder,
    Layout,
    VineNetwork,
    autoencoder,
    build_decoder,
    decode_latents,
    denoised,
    encode_pictures,
)
from coverlock_sdk.calibration import Calibration  # noqa: E402
from coverlock_sdk.errors import (  # noqa: E402
    CorruptModelError,
    CoverLockError,
    MissingModelError,
)
from coverlock_sdk.plugin_manager import plugin_manager  # noqa: E402
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


@pytest.fixture(scope="module")
def networks() -> tuple[Any, Any]:
    torch.manual_seed(0)
    layout = Layout(**TINY)
    encoder, decoder = Encoder(layout).eval(), build_decoder(layout).eval()
    torch.nn.init.normal_(encoder.prompt)
    return encoder, decoder


@pytest.fixture(scope="module")
def folder(networks: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vine")
    weights.save(*networks, folder)
    return folder


@pytest.fixture(scope="module")
def payloads() -> Any:
    return np.random.default_rng(1).integers(0, 2, (2, 32), dtype=np.uint8)


def shapes(state: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


# The published layout


def test_the_adaptor_has_the_published_names_and_shapes() -> None:
    with torch.device("meta"):
        state = Encoder(Layout()).sec_encoder.state_dict()
    assert list(shapes(state).items()) == [
        ("secret_dense1.linear.weight", (4096, 100)),
        ("secret_dense1.linear.bias", (4096,)),
        ("secret_dense2.linear.weight", (12288, 4096)),
        ("secret_dense2.linear.bias", (12288,)),
        ("conv1.conv.weight", (6, 6, 3, 3)),
        ("conv1.conv.bias", (6,)),
        ("conv2.conv.weight", (3, 6, 3, 3)),
        ("conv2.conv.bias", (3,)),
    ]


def test_the_diffusion_networks_are_those_of_sd_turbo() -> None:
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
    assert skips == {
        "decoder.skip_conv_1.weight": (512, 512, 3, 3),
        "decoder.skip_conv_1.bias": (512,),
        "decoder.skip_conv_2.weight": (512, 256, 3, 3),
        "decoder.skip_conv_2.bias": (512,),
        "decoder.skip_conv_3.weight": (512, 128, 3, 3),
        "decoder.skip_conv_3.bias": (512,),
        "decoder.skip_conv_4.weight": (256, 128, 3, 3),
        "decoder.skip_conv_4.bias": (256,),
    }


def test_the_decoder_ends_in_a_second_linear_layer() -> None:
    with torch.device("meta"):
        state = shapes(build_decoder(Layout()).convnext.state_dict())
    assert list(state)[-4:] == [
        "classifier.2.weight",
        "classifier.2.bias",
        "classifier.3.weight",
        "classifier.3.bias",
    ]
    assert state["classifier.2.weight"] == (1000, 1024)
    assert state["classifier.3.weight"] == (100, 1000)


# What the networks compute


def test_the_one_step_is_that_of_the_ddpm_scheduler() -> None:
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


def test_without_skips_the_autoencoder_is_the_one_of_diffusers() -> None:
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


@pytest.mark.parametrize("broadcast_gap", [False, True])
def test_gradients_reach_every_weight_that_sees_the_message(broadcast_gap: bool) -> None:
    layout = Layout(**TINY, broadcast_gap=broadcast_gap)
    torch.manual_seed(0)
    encoder, decoder = Encoder(layout), build_decoder(layout)
    images, bits = torch.rand(2, 3, 64, 128), torch.randint(0, 2, (2, 32), dtype=torch.uint8)
    marked = encoder(images, bits)
    assert marked.shape == images.shape
    assert marked.min() >= 0
    assert marked.max() <= 1
    logits = decoder(marked)
    assert logits.shape == (2, 32)
    logits.square().sum().backward()
    for module in (encoder.sec_encoder, encoder.vae_a2b.decoder, decoder):
        for name, weight in module.named_parameters():
            assert weight.grad is not None, name


# The plugin


def test_a_tiny_vine_runs_from_end_to_end(folder: Path, payloads: Any) -> None:
    watermark = Vine(size=64, weights=folder, **TINY)
    covers = scenes(2)
    marked = watermark.embed(covers, payloads)
    assert marked.shape == covers.shape
    assert marked.dtype == np.float32
    assert not np.array_equal(marked, watermark.embed(covers, 1 - payloads))
    assert np.array_equal(marked, watermark.embed(covers, payloads))
    assert watermark.decode(marked).shape == (2, 32)


def test_the_modules_compute_what_the_plugin_does(
    folder: Path, payloads: Any, networks: tuple[Any, Any]
) -> None:
    watermark = Vine(size=128, weights=folder, **TINY)
    covers = torch.from_numpy(scenes(2))[:, :, :128, :128]
    with torch.inference_mode():
        marked = watermark.encoder_module()(covers, torch.from_numpy(payloads))
        logits = watermark.decoder_module()(marked)
        torch.testing.assert_close(marked, networks[0](covers, torch.from_numpy(payloads)))
    embedded = watermark.embed(covers.numpy(), payloads)
    np.testing.assert_allclose(embedded, marked.numpy(), atol=1e-4)
    np.testing.assert_allclose(watermark.decode(marked.numpy()), logits.numpy(), atol=1e-4)


def test_what_the_trainer_writes_is_a_watermark(tmp_path: Path, payloads: Any) -> None:
    torch.manual_seed(0)
    network = VineNetwork(size=64, **TINY, broadcast_gap=True).eval()
    save_network(network, tmp_path / "watermark.safetensors")
    (tmp_path / "watermark.json").write_text('{"calibration": {"scale": 2.0, "power": 0.5}}')
    watermark = Vine(weights=tmp_path / "watermark.safetensors")
    assert (watermark.bits, watermark.native_size) == (32, (64, 64))
    assert watermark.calibration == Calibration(2.0, 0.5)
    covers = scenes(2)[:, :, :64, :64]
    with torch.inference_mode():
        marked = network.encode(torch.from_numpy(covers), torch.from_numpy(payloads).float())
        logits = network.decode(marked)
    np.testing.assert_allclose(watermark.embed(covers, payloads), marked.numpy(), atol=1e-4)
    np.testing.assert_allclose(watermark.decode(marked.numpy()), logits.numpy(), atol=1e-4)


def test_it_can_be_trained_by_name() -> None:
    trainable = plugin_manager().get("network", "vine")()
    with torch.device("meta"):
        published, small = trainable.build(), trainable.build(**trainable.reference)
    assert (published.bits, published.size) == (100, 256)
    assert sum(w.numel() for w in small.parameters()) < 10e6
    assert trainable.recipe.message_loss == "bce"
    assert trainable.recipe.adversarial_weight == 0  # its Wasserstein discriminator is not ours


def test_a_size_that_does_not_fit_is_refused(folder: Path) -> None:
    with pytest.raises(CoverLockError, match="divide by 64, not at 200"):
        Vine(size=200, weights=folder, **TINY)


def test_missing_weights_name_the_command(tmp_path: Path, folder: Path) -> None:
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


def test_the_intervention_has_weights_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="vine-broadcast-gap"):
        Vine(broadcast_gap=True)


# Importing


@pytest.fixture
def published(networks: tuple[Any, Any], tmp_path: Path) -> Path:
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
def test_published_files_are_recognised_and_converted(
    files: tuple[str, ...], published: Path, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "converted"
    for name in files:
        weights.import_official(published / name, target, Layout(**TINY))
    for part in ("sec_encoder", "unet", "vae_a2b", "decoder"):
        ours = load_file(target / f"{part}.safetensors")
        saved = load_file(folder / f"{part}.safetensors")
        assert ours.keys() == saved.keys()
        assert all(torch.equal(ours[name], saved[name]) for name in saved)
    assert not list(target.glob(".*"))


def test_the_autoencoder_is_recognised_under_all_its_names(
    networks: tuple[Any, Any], tmp_path: Path
) -> None:
    state = networks[0].vae_a2b.state_dict()
    torch.save({f"vae_enc.vae.{n}": v for n, v in state.items()}, tmp_path / "vae.pth")
    weights.import_official(tmp_path / "vae.pth", tmp_path, Layout(**TINY))
    assert load_file(tmp_path / "vae_a2b.safetensors").keys() == state.keys()


def test_what_does_not_belong_is_named(published: Path, tmp_path: Path) -> None:
    state = load_file(published / "enc.safetensors")
    save_file({**state, "discriminator.weight": torch.zeros(2)}, tmp_path / "more.safetensors")
    with pytest.raises(CorruptModelError, match="1 unknown: discriminator.weight"):
        weights.import_official(tmp_path / "more.safetensors", tmp_path / "vine", Layout(**TINY))
    assert not (tmp_path / "vine").exists()


def test_a_folder_that_cannot_be_written_is_named(published: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MissingModelError, match="set COVERLOCK_MODELS"):
        weights.import_official(published / "vae.pth", tmp_path / "file", Layout(**TINY))


def test_the_empty_prompt_is_computed_from_the_text_encoder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.CLIPTextConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=1,
        hidden_act="gelu",
    )
    model = transformers.CLIPTextModel(config).eval()
    state = {
        "text_model." + n.removeprefix("text_model."): v for n, v in model.state_dict().items()
    }
    state["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    save_file(state, tmp_path / "model.safetensors")
    weights.import_official(tmp_path / "model.safetensors", tmp_path, Layout(**TINY))
    prompt = load_file(tmp_path / "prompt.safetensors")["prompt"]
    with torch.inference_mode():
        expected = model(torch.tensor([[49406, 49407, *[0] * 75]])).last_hidden_state
    torch.testing.assert_close(prompt, expected)
    with pytest.raises(CorruptModelError, match=r"\(49408, 64\), not \(49408, 1024\)"):
        weights.import_official(tmp_path / "model.safetensors", tmp_path / "full", Layout())


@pytest.mark.parametrize(
    ("prefix", "shape", "complaint"),
    [
        ("cond_stage_model.transformer.text_model.", (49408, 64), "is not a part of VINE"),
        ("text_model.", (49408,), r"its vocabulary has the shape \(49408,\), not \(49408, 64\)"),
        ("", (100, 64), r"its vocabulary has the shape \(100, 64\)"),
    ],
)
def test_other_text_encoders_are_refused(
    prefix: str, shape: tuple[int, ...], complaint: str, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    state = {f"{prefix}embeddings.token_embedding.weight": torch.zeros(shape)}
    save_file({**state, "model.diffusion_model.bias": torch.zeros(2)}, tmp_path / "sd.safetensors")
    with pytest.raises(CorruptModelError, match=complaint):
        weights.import_official(tmp_path / "sd.safetensors", tmp_path / "vine", Layout(**TINY))
    assert not (tmp_path / "vine").exists()


def test_a_file_of_another_size_is_refused_with_what_differs(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    with pytest.raises(CorruptModelError) as refusal:
        import_official(published / "ConditionAdaptor.pth")
    assert "does not hold the sec_encoder of VINE" in str(refusal.value)
    assert "secret_dense1.linear.weight (64, 32) instead of (4096, 100)" in str(refusal.value)
    assert not (tmp_path / "models").exists()


def test_a_checkpoint_of_another_system_is_refused(tmp_path: Path) -> None:
    torch.save({"encoder.conv_layers.0.layers.0.weight": torch.zeros(2)}, tmp_path / "hidden.pyt")
    with pytest.raises(CorruptModelError, match=r"not a part of VINE.*conv_layers"):
        weights.import_official(tmp_path / "hidden.pyt", tmp_path / "vine", Layout(**TINY))


def test_a_damaged_part_is_refused_on_loading(folder: Path, tmp_path: Path) -> None:
    content = (folder / "decoder.safetensors").read_bytes()
    (tmp_path / "decoder.safetensors").write_bytes(content[:-10])
    with pytest.raises(CorruptModelError, match="truncated"):
        Vine(size=64, weights=tmp_path, **TINY).decode(scenes(1))
