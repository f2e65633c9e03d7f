"""VINE (Lu et al. 2025, figure 3): a one-step diffusion model as encoder, ConvNeXt as decoder.

The condition adaptor paints the message into the picture, the autoencoder and one step of SD-Turbo
repaint it, and four skip convolutions carry the detail past the bottleneck. Modules have the names
of the published files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.convnext.network import BASE, ConvNeXt, Shape
from coverlock_plugins.networks.network import WatermarkNetwork

TIMESTEP = 999
SKIPS = ("skip_conv_1", "skip_conv_2", "skip_conv_3", "skip_conv_4")
# The share of signal that Stable Diffusion's schedule leaves at that step.
_SIGNAL = float(np.prod(1 - np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2))


@dataclass(frozen=True)
class Layout:
    """The sizes of the networks; the defaults are the published ones."""

    bits: int = 100
    side: int = 64
    """The message is first drawn on a map of this many pixels a side."""
    autoencoder: Sequence[int] = (128, 256, 512, 512)
    unet: Sequence[int] = (320, 640, 1280, 1280)
    heads: Sequence[int] = (5, 10, 20, 20)
    groups: int = 32
    """Channels are normalised in this many groups."""
    tokens: int = 77
    context: int = 1024
    """Number and width of the vectors that stand for the empty prompt."""
    depths: Sequence[int] = BASE.depths
    widths: Sequence[int] = BASE.widths
    """The shape of the decoder, a ConvNeXt-Base."""
    classes: int = 1000
    """Width of ConvNeXt's own last layer, which another maps to the bits."""


class VineNetwork(WatermarkNetwork):
    """Encoder and decoder as one network, for the trainer."""

    def __init__(self, size: int = 256, **layout: Any) -> None:
        shape = Layout(**layout)
        super().__init__(size=size, **asdict(shape))
        self.layout, self.encoder, self.decoder = shape, Encoder(shape), Decoder(shape)

    def encode(self, images: Tensor, messages: Tensor) -> Tensor:
        """The marked pictures."""
        return self.encoder(images, messages)

    def decode(self, images: Tensor) -> Tensor:
        """The logits of the bits."""
        return self.decoder(images)


class Encoder(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1] and bits (N, L) to marked pictures; sides divide by 64."""

    prompt: Tensor

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.sec_encoder = Adaptor(layout)
        self.unet = UNet2DConditionModel(
            sample_size=64,
            block_out_channels=tuple(layout.unet),
            attention_head_dim=tuple(layout.heads),
            norm_num_groups=layout.groups,
            cross_attention_dim=layout.context,
            use_linear_projection=True,
        )
        self.vae_a2b = autoencoder(layout)
        # What SD-Turbo's text encoder says of the empty prompt; published apart from the rest.
        self.register_buffer("prompt", torch.zeros(1, layout.tokens, layout.context))

    def forward(self, images: Tensor, payloads: Tensor) -> Tensor:
        """Paint the payloads in, and let one step of diffusion repaint the picture."""
        painted = self.sec_encoder(payloads.to(images.dtype), 2 * images - 1)
        latent, skips = encode_pictures(self.vae_a2b, painted)  # (N, 4, H / 8, W / 8)
        prompt = self.prompt.expand(len(latent), -1, -1)
        noise = self.unet(latent, TIMESTEP, encoder_hidden_states=prompt).sample
        pictures = decode_latents(self.vae_a2b, denoised(latent, noise), skips)
        return (pictures.clamp(-1, 1) + 1) / 2


class Decoder(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1], not normalised further, to logits (N, L).

    The authors' code ends in a sigmoid and rounds.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.convnext = ConvNeXt(Shape(layout.depths, layout.widths), layout.classes)
        self.convnext.classifier.append(nn.Linear(layout.classes, layout.bits))

    def forward(self, images: Tensor) -> Tensor:
        """The logits of the bits."""
        return self.convnext(images)


class Adaptor(nn.Module):
    """Draws the message on a small map, beside the picture, and mixes the two into one picture."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.side = layout.side
        self.secret_dense1 = dense(layout.bits, layout.side**2)
        self.secret_dense2 = dense(layout.side**2, 3 * layout.side**2)
        self.conv1 = convolution(6, 6)
        self.conv2 = convolution(6, 3)

    def forward(self, payloads: Tensor, images: Tensor) -> Tensor:
        """Bits (N, L) and pictures (N, 3, H, W) in [-1, 1] to pictures."""
        drawn = self.secret_dense2(self.secret_dense1(2 * payloads - 1).relu()).relu()
        drawn = drawn.view(-1, 3, self.side, self.side)
        drawn = functional.interpolate(drawn, images.shape[2:])  # nearest
        return self.conv2(self.conv1(torch.cat([drawn, images], dim=1)).relu())


def dense(before: int, after: int) -> nn.Sequential:
    """A fully connected layer, one name deeper."""
    linear = nn.Linear(before, after)
    nn.init.kaiming_normal_(linear.weight)
    return nn.Sequential(OrderedDict(linear=linear))


def convolution(before: int, after: int) -> nn.Sequential:
    """A 3x3 convolution, one name deeper."""
    conv = nn.Conv2d(before, after, kernel_size=3, padding=1)
    nn.init.kaiming_normal_(conv.weight)
    return nn.Sequential(OrderedDict(conv=conv))


def denoised(latents: Tensor, noise: Tensor) -> Tensor:
    """The one step of diffusion: what is left of ``latents`` when ``noise`` is taken out."""
    return (latents - (1 - _SIGNAL) ** 0.5 * noise) / _SIGNAL**0.5


def autoencoder(layout: Layout) -> Any:
    """SD-Turbo's autoencoder, with a convolution for each skip connection in its decoder."""
    first, second, third, last = layout.autoencoder
    vae = AutoencoderKL(
        sample_size=768,
        block_out_channels=tuple(layout.autoencoder),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        norm_num_groups=layout.groups,
    )
    widths = ((third, last), (second, last), (first, third), (first, second))
    for name, (before, after) in zip(SKIPS, widths, strict=True):
        skip = nn.Conv2d(before, after, kernel_size=3, padding=1)
        nn.init.constant_(skip.weight, 1e-5)
        vae.decoder.add_module(name, skip)
    return vae


def encode_pictures(vae: Any, pictures: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Pictures in [-1, 1] to scaled latents (the mode), and what entered each down block."""
    encoder, skips = vae.encoder, []
    x = encoder.conv_in(pictures)
    for block in encoder.down_blocks:
        skips.append(x)
        x = block(x)
    x = encoder.conv_out(encoder.conv_act(encoder.conv_norm_out(encoder.mid_block(x))))
    mode, _ = vae.quant_conv(x).chunk(2, dim=1)
    return mode * vae.config.scaling_factor, skips


def decode_latents(vae: Any, latents: Tensor, skips: list[Tensor]) -> Tensor:
    """Scaled latents to pictures, each up block helped by the down block of its size."""
    decoder = vae.decoder
    x = decoder.mid_block(decoder.conv_in(vae.post_quant_conv(latents / vae.config.scaling_factor)))
    for name, block, skip in zip(SKIPS, decoder.up_blocks, reversed(skips), strict=True):
        x = block(x + decoder.get_submodule(name)(skip))
    return decoder.conv_out(decoder.conv_act(decoder.conv_norm_out(x)))
