"""The conformance kit on a small VINE whose weights are set by hand.

Random weights carry no message and small ones take hours to train. So every weight here is chosen:
the adaptor adds a pattern for each bit, the skip connection at full size carries the picture past
the bottleneck, and ConvNeXt compares what it sees with the patterns. All of VINE's layers run.

Normalisation would undo that. It becomes the identity, nearly, where every channel has a negative
twin (so that the mean is zero) and two constant ones are much larger than all others (so that the
deviation is theirs).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from coverlock_plugins.vine import Vine, weights  # noqa: E402
from coverlock_plugins.vine.network import Decoder, Encoder, Layout  # noqa: E402
from coverlock_sdk.calibration import Calibration  # noqa: E402
from coverlock_sdk.testing.test_pictures import *  # noqa: E402, F403
from coverlock_sdk.testing.test_pictures import test_greyscale as promised_greyscale  # noqa: E402
from coverlock_sdk.testing.test_watermark import *  # noqa: E402, F403

BITS, SIZE = 32, 64
CELLS = 4
"""A pattern has 4 x 4 cells of 2 x 2 pixels, and repeats itself."""
LARGE = 100.0
STRENGTH = 0.04
LAYOUT: dict[str, Any] = {
    "bits": BITS,
    "side": SIZE // 2,
    "autoencoder": (8, 8, 8, 8),
    "unet": (8, 8, 8, 8),
    "heads": (1, 1, 1, 1),
    "groups": 1,
    "tokens": 2,
    "context": 8,
    "depths": (1, 1, 1, 1),
    "widths": (26, 98, 98, 98),
    "classes": BITS,
}


@pytest.fixture(scope="session")
def watermark(tmp_path_factory: pytest.TempPathFactory) -> Vine:
    folder: Path = tmp_path_factory.mktemp("hand-made vine")
    torch.manual_seed(0)
    encoder, decoder = Encoder(Layout(**LAYOUT)), Decoder(Layout(**LAYOUT))
    with torch.no_grad():
        set_adaptor(encoder.sec_encoder)
        set_autoencoder(encoder.vae_a2b)
        set_decoder(decoder.convnext)
    weights.save(encoder, decoder, folder)
    vine = Vine(SIZE, folder, **LAYOUT)
    vine.calibration = Calibration(scale=4.0)
    return vine


@pytest.mark.xfail(reason="two of three hand-made patterns are differences of colours")
def test_greyscale(legible: Any, unlocked: Any, marked: Any, record_property: Any) -> None:
    promised_greyscale(legible, unlocked, marked, record_property)


def patterns() -> torch.Tensor:
    """The finest of the orthonormal patterns: (BITS, 3, CELLS, CELLS)."""
    frequency, position = np.arange(CELLS)[:, None], np.arange(CELLS) + 0.5
    waves = np.cos(np.pi * frequency * position / CELLS) * np.sqrt(2 / CELLS)
    colours = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])
    finest_first = sorted(itertools.product(range(CELLS), repeat=2), key=sum, reverse=True)
    every = [
        colour[:, None, None] * np.outer(waves[down], waves[across])
        for down, across in finest_first
        for colour in colours
    ]
    return torch.tensor(np.stack(every[:BITS]), dtype=torch.float32)


def set_adaptor(adaptor: Any) -> None:
    """Picture + sum of patterns, each with the sign of its bit; kept positive for the ReLUs."""
    clear(adaptor)
    ones = torch.eye(BITS)
    adaptor.secret_dense1.linear.weight[: 2 * BITS] = torch.cat([ones, -ones])
    repeats = SIZE // 2 // CELLS
    drawn = 2 * STRENGTH * patterns().repeat(1, 1, repeats, repeats).flatten(1)  # in [-1, 1]
    adaptor.secret_dense2.linear.weight[:, :BITS] = drawn.T
    adaptor.secret_dense2.linear.weight[:, BITS : 2 * BITS] = -drawn.T
    adaptor.secret_dense2.linear.bias += 2
    adaptor.conv1.conv.weight[:, :, 1, 1] = torch.eye(6)
    adaptor.conv1.conv.bias[3:] = 2
    adaptor.conv2.conv.weight[:, :, 1, 1] = torch.eye(3).repeat(1, 2)
    adaptor.conv2.conv.bias -= 4


def set_autoencoder(vae: Any) -> None:
    """Only the outermost skip connection arrives at the end, as it came in."""
    encoder, decoder = vae.encoder, vae.decoder
    last = decoder.up_blocks[3]
    for module in (encoder.conv_in, decoder.skip_conv_4, decoder.conv_out):
        clear(module)
    clear(decoder.up_blocks[2].upsamplers[0].conv)
    for block in last.resnets:
        clear(block.conv2)
    encoder.conv_in.weight[:6, :, 1, 1] = torch.cat([torch.eye(3), -torch.eye(3)])
    encoder.conv_in.bias[6:] = torch.tensor([LARGE, -LARGE])
    decoder.skip_conv_4.weight[:, :, 1, 1] = torch.eye(8)
    make_identity(decoder.conv_norm_out)
    decoder.conv_norm_out.bias += 20  # where SiLU is the identity
    decoder.conv_out.weight[:, :3, 1, 1] = torch.eye(3)
    decoder.conv_out.bias -= 20


def set_decoder(convnext: Any) -> None:
    """Cells, gathered to whole patterns, averaged over the picture, compared."""
    for module in convnext.features.modules():
        if isinstance(module, torch.nn.Conv2d):
            clear(module)
        if isinstance(module, torch.nn.LayerNorm):
            make_identity(module)
        if hasattr(module, "layer_scale"):
            module.layer_scale.zero_()
    stem, gather, *average = (convnext.features[index] for index in (0, 2, 4, 6))
    for channel, row, column in itertools.product(range(3), range(2), range(2)):
        cell = 4 * channel + 2 * row + column
        pixels = stem[0].weight[:, channel, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        pixels[cell], pixels[12 + cell] = 0.25, -0.25
    stem[0].bias[24:] = torch.tensor([LARGE, -LARGE])
    for cell, row, column in itertools.product(range(12), range(2), range(2)):
        position = 4 * cell + 2 * row + column
        gather[1].weight[position, cell, row, column] = 1
        gather[1].weight[48 + position, cell, row, column] = -1
    gather[1].bias[96:] = torch.tensor([LARGE, -LARGE])
    for halve in average:
        halve[1].weight[:] = torch.eye(98)[:, :, None, None] / 4
    norm, _, compare, scale = convnext.classifier
    clear(compare), clear(scale), make_identity(norm)
    # Cells were gathered by their place in a patch first, and by the place of the patch second.
    order = patterns().view(BITS, 3, 2, 2, 2, 2).permute(0, 1, 3, 5, 2, 4)
    compare.weight[:, :48] = order.flatten(1)
    scale.weight[:] = torch.eye(BITS) / STRENGTH


def clear(module: Any) -> None:
    for parameter in module.parameters():
        parameter.zero_()


def make_identity(norm: Any) -> None:
    """Undo the division by the deviation of the two constant channels."""
    norm.weight.fill_(LARGE * (2 / len(norm.weight)) ** 0.5)
    norm.bias.zero_()
