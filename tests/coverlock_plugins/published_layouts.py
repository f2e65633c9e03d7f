"""Names, order and shapes of the published checkpoints, written out from their descriptions.

Nothing here comes from our networks: it is what they are compared with.
"""

from __future__ import annotations

Layout = list[tuple[str, tuple[int, ...]]]


def conv(name: str, out: int, into: int, kernel: int, bias: bool = True) -> Layout:
    weight = [(f"{name}.weight", (out, into, kernel, kernel))]
    return weight + ([(f"{name}.bias", (out,))] if bias else [])


def norm(name: str, channels: int) -> Layout:
    values = [
        (f"{name}.{part}", (channels,))
        for part in ("weight", "bias", "running_mean", "running_var")
    ]
    return [*values, (f"{name}.num_batches_tracked", ())]


def linear(name: str, out: int, into: int) -> Layout:
    return [(f"{name}.weight", (out, into)), (f"{name}.bias", (out,))]


def conv_bn(name: str, out: int, into: int) -> Layout:
    return conv(f"{name}.layers.0", out, into, 3) + norm(f"{name}.layers.1", out)


def squeeze_excite(name: str, out: int, into: int) -> Layout:
    layout: Layout = []
    if out != into:
        layout += conv(f"{name}.downsample.0", out, into, 1, bias=False)
        layout += norm(f"{name}.downsample.1", out)
    layout += conv(f"{name}.left.0", out, into, 1, bias=False) + norm(f"{name}.left.1", out)
    layout += conv(f"{name}.left.3", out, out, 3, bias=False) + norm(f"{name}.left.4", out)
    layout += conv(f"{name}.left.6", out, out, 1, bias=False) + norm(f"{name}.left.7", out)
    layout += conv(f"{name}.se.1", out // 8, out, 1, bias=False)
    return layout + conv(f"{name}.se.3", out, out // 8, 1, bias=False)


def squeeze_excite_row(name: str, blocks: int, channels: int = 64) -> Layout:
    layout: Layout = []
    for i in range(blocks):
        layout += squeeze_excite(f"{name}.layers.{i}", channels, channels)
    return layout


def doublings(name: str, blocks: int, channels: int) -> Layout:
    layout: Layout = []
    for i in range(blocks):
        part = f"{name}.layers.{i}.layers"
        layout += conv(f"{part}.0", channels, channels, 2) + norm(f"{part}.1", channels)
    return layout


def hidden() -> Layout:
    """ando-khachatryan/HiDDeN: 30 bits, 64 channels, 4 encoder and 7 decoder blocks."""
    layout = conv_bn("encoder.conv_layers.0", 64, 3)
    for i in (1, 2, 3):
        layout += conv_bn(f"encoder.conv_layers.{i}", 64, 64)
    layout += conv_bn("encoder.after_concat_layer", 64, 30 + 64 + 3)
    layout += conv("encoder.final_layer", 3, 64, 1)
    layout += conv_bn("decoder.layers.0", 64, 3)
    for i in range(1, 7):
        layout += conv_bn(f"decoder.layers.{i}", 64, 64)
    return layout + conv_bn("decoder.layers.7", 30, 64) + linear("decoder.linear", 30, 30)


def mbrs_trunk(name: str, halvings: int) -> Layout:
    """The decoder's first layers: 64 channels, doubled at every halving of the side."""
    layout = conv_bn(f"{name}.0", 64, 3) + squeeze_excite(f"{name}.1.layers.0", 64, 64)
    width = 64
    for stage in range(halvings):
        layout += squeeze_excite(f"{name}.1.layers.{2 * stage + 1}", width, width)
        layout += squeeze_excite(f"{name}.1.layers.{2 * stage + 2}", 2 * width, width)
        width *= 2
    return layout + conv_bn(f"{name}.2", 64, width)


def mbrs(times: int = 4) -> Layout:
    """MBRS_256_m256: 256 pixels, 256 bits in a 16 x 16 square, which is doubled four times.

    The same network for 128 pixels doubles the square three times.
    """
    layout = conv_bn("encoder.image_pre_layer", 64, 3)
    layout += squeeze_excite_row("encoder.image_first_layer", 4)
    layout += conv_bn("encoder.message_pre_layer.0", 64, 1)
    layout += doublings("encoder.message_pre_layer.1", times, 64)
    layout += squeeze_excite_row("encoder.message_pre_layer.2", 1)
    layout += squeeze_excite_row("encoder.message_first_layer", 4)
    layout += conv_bn("encoder.after_concat_layer", 64, 128)
    layout += conv("encoder.final_layer", 3, 67, 1)
    layout += mbrs_trunk("decoder.first_layers", times)
    layout += squeeze_excite_row("decoder.keep_layers", 4 - times)
    return layout + conv_bn("decoder.final_layer", 1, 64)


def mbrs_diffusion() -> Layout:
    """MBRS_Diffusion_128_m30: 128 pixels, 30 bits spread over 256 cells, three doublings."""
    layout = conv_bn("encoder.image_pre_layer", 64, 3)
    layout += squeeze_excite_row("encoder.image_first_layer", 4)
    layout += linear("encoder.message_duplicate_layer", 256, 30)
    layout += conv_bn("encoder.message_pre_layer_0", 64, 1)
    layout += doublings("encoder.message_pre_layer_1", 3, 64)
    layout += squeeze_excite_row("encoder.message_pre_layer_2", 1)
    layout += squeeze_excite_row("encoder.message_first_layer", 4)
    layout += conv_bn("encoder.after_concat_layer", 64, 128)
    layout += conv("encoder.final_layer", 3, 67, 1)
    return layout + mbrs_diffusion_decoder("decoder")


def mbrs_diffusion_decoder(name: str) -> Layout:
    layout = mbrs_trunk(f"{name}.first_layers", 3)
    layout += squeeze_excite_row(f"{name}.keep_layers", 1)
    return layout + conv_bn(f"{name}.final_layer", 1, 64) + linear(f"{name}.message_layer", 30, 256)


def frame_conv(name: str, out: int, into: int) -> Layout:
    return [(f"{name}.weight", (out, into, 1, 11, 11)), (f"{name}.bias", (out,))]


def rivagan(part: str) -> Layout:
    """DAI-Lab/RivaGAN, 32 bits: an attention in each part, and convolutions over single frames."""
    into, out = {"encoder": (4, 3), "decoder": (3, 32)}[part]
    layout = frame_conv("_attention.0", 32, 3) + norm("_attention.2", 32)
    layout += frame_conv("_attention.3", 32, 32) + norm("_attention.5", 32)
    layout += frame_conv("_conv.0", 32, into) + norm("_conv.2", 32)
    return layout + frame_conv("_conv.3", out, 32)


def resnet50(name: str, classes: int) -> Layout:
    layout = conv(f"{name}.conv1", 64, 3, 7, bias=False) + norm(f"{name}.bn1", 64)
    into = 64
    for stage, (depth, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for block in range(depth):
            part = f"{name}.layer{stage}.{block}"
            layout += conv(f"{part}.conv1", width, into, 1, False) + norm(f"{part}.bn1", width)
            layout += conv(f"{part}.conv2", width, width, 3, False) + norm(f"{part}.bn2", width)
            layout += conv(f"{part}.conv3", 4 * width, width, 1, False)
            layout += norm(f"{part}.bn3", 4 * width)
            if block == 0:
                layout += conv(f"{part}.downsample.0", 4 * width, into, 1, False)
                layout += norm(f"{part}.downsample.1", 4 * width)
            into = 4 * width
    return layout + linear(f"{name}.fc", classes, 2048)


def cin() -> Layout:
    """CIN: 16 couplings of three dense blocks, three message branches, NIAM and NSM."""
    layout: Layout = []
    for coupling in range(16):
        for part in "FGH":
            name = f"invertible_model.operations.{coupling}.{part}"
            for index in range(1, 5):
                layout += conv(f"{name}.conv{index}", 32, 12 + 32 * (index - 1), 3)
            layout += conv(f"{name}.conv5", 12, 12 + 32 * 4, 3)
    for branch in (1, 2, 3):
        layout += linear(f"fusion_model.linear{branch}", 256, 30)
    for branch in (1, 2, 3):
        layout += doublings(f"fusion_model.UpConvt{branch}", 3, 1)
    for branch in (1, 2, 3):
        layout += linear(f"fusion_model.linear_rev{branch}", 30, 128 * 128)
    layout += [("invDown.operations.0.haar_weights", (12, 1, 2, 2))]
    return layout + mbrs_diffusion_decoder("decoder2") + resnet50("nsm_model.resnet", 2)
