"""SteganoGAN's dense networks (Zhang et al., 2019, section 3) in NumPy alone.

Encoder and decoder have the same shape: four 3x3 convolutions, each of which sees the outputs of
all before it, and the first three of which are followed by LeakyReLU and batch normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

LEAK = np.float32(0.01)
EPSILON = 1e-5
TAPS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


@dataclass(frozen=True)
class Block:
    """A convolution and, unless it is the last of its network, what follows it."""

    taps: FloatArray  # (9, out, in): the kernel, one matrix per shift
    bias: FloatArray  # (out, 1)
    scale: FloatArray | None  # (out, 1): batch normalisation on running statistics is affine
    shift: FloatArray | None


def build(weights: Mapping[str, FloatArray], part: str, extra: int = 0) -> list[Block]:
    """The four blocks of ``part``.

    SteganoGAN appends its ``extra`` payload channels to the input of every block but the first;
    here they come first, so that all inputs of a block are neighbours in memory.
    """
    blocks = []
    for number in (1, 2, 3, 4):
        names = f"{part}.conv{number}"
        kernel = weights[f"{names}.0.weight"]  # (out, in, 3, 3)
        if number > 1:
            kernel = np.roll(kernel, extra, axis=1)
        scale = shift = None
        if number < 4:
            mean, variance, gain, offset = (
                weights[f"{names}.2.{name}"].astype(np.float64)
                for name in ("running_mean", "running_var", "weight", "bias")
            )
            factor = gain / np.sqrt(variance + EPSILON)
            scale, shift = _column(factor), _column(offset - mean * factor)
        taps = np.ascontiguousarray(kernel.transpose(2, 3, 0, 1).reshape(9, *kernel.shape[:2]))
        blocks.append(Block(taps, _column(weights[f"{names}.0.bias"]), scale, shift))
    return blocks


def run(blocks: list[Block], image: FloatArray, extra: FloatArray | None = None) -> FloatArray:
    """What the network makes of ``image`` (3, H, W) and the planes of ``extra`` (D, H, W)."""
    extra = np.empty((0, *image.shape[1:]), np.float32) if extra is None else extra
    maps, seen = _padded(extra), _padded(image)
    for block in blocks:
        output = _convolve(block, seen)
        if block.scale is None or block.shift is None:
            return output
        np.maximum(output, LEAK * output, out=output)
        output *= block.scale[:, :, None]
        output += block.shift[:, :, None]
        maps = seen = np.concatenate([maps, _padded(output)])
    raise AssertionError("the last block of a network has no normalisation")


def _convolve(block: Block, padded: FloatArray) -> FloatArray:
    """A 3x3 convolution as one matrix product and nine shifted sums.

    On the flattened padded plane a shift is an offset, so nothing is copied; the sums that fall
    on the padding are dropped. One large product instead of many small ones matters on a busy
    machine, where each call may wait for a thread of the linear algebra library.
    """
    channels, height, width = padded.shape
    products = block.taps.reshape(-1, channels) @ padded.reshape(channels, -1)
    products = products.reshape(9, len(block.bias), -1)
    start, end = width + 1, (height - 1) * width - 1
    total = np.empty((len(block.bias), height * width), np.float32)
    inside = total[:, start:end]
    inside[:] = block.bias
    for product, (down, right) in zip(products, TAPS, strict=True):
        offset = down * width + right
        inside += product[:, start + offset : end + offset]
    return total.reshape(-1, height, width)[:, 1:-1, 1:-1]


def _padded(planes: FloatArray) -> FloatArray:
    return np.pad(planes, ((0, 0), (1, 1), (1, 1)))


def _column(values: npt.NDArray[np.floating]) -> FloatArray:
    return values.astype(np.float32)[:, None]
