"""How well a watermark network does on photos: quality, calibration, bits read when distorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coverlock_plugins.networks.network import Decoder, Encoder, WatermarkNetwork, in_chunks
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.images.distortions import EVALUATION, draw_training_distortion
from coverlock_training.loop import Figures
from coverlock_training.photos import Bytes, rounded, square
from coverlock_training.watermarks.trainer import lifted


def squares(pictures: Iterable[Any], side: int) -> Tensor:
    """What a network sees of pictures of any kind."""
    return torch.from_numpy(np.stack([square(picture, side) for picture in pictures]))


def quality(network: WatermarkNetwork, covers: Tensor, seed: int = 0) -> Figures:
    """Bit accuracy and PSNR of marked pictures, and PSNR of marked photos of twice the side."""
    marked, messages = _mark(network, covers, seed)
    seen = torch.from_numpy(marked).float() / 255
    return {
        "bit_accuracy": _accuracy(in_chunks(Decoder(network), seen), messages),
        "psnr_mean": _psnr(seen - covers),
        "psnr_lifted": _psnr(lifted(seen - covers)),
    }


def examine(
    network: WatermarkNetwork, covers: Tensor, seed: int = 1
) -> tuple[Calibration, Figures]:
    """How far logits can be trusted after a training distortion, and accuracy under the six."""
    marked, messages = _mark(network, covers, seed)
    rng = np.random.default_rng(seed)
    pictures = [np.ascontiguousarray(picture.transpose(1, 2, 0)) for picture in marked]

    def logits_after(change: Callable[[Any], Any]) -> Tensor:
        return in_chunks(Decoder(network), squares(map(change, pictures), network.size))

    clean = logits_after(lambda picture: picture)
    distorted = logits_after(lambda picture: draw_training_distortion(rng)(picture, rng))
    calibration = Calibration.fit(
        torch.cat([clean, distorted]).numpy(), torch.cat([messages, messages]).numpy()
    )
    robustness = {
        name: _accuracy(logits_after(partial(distortion, rng=rng)), messages)
        for name, distortion in EVALUATION.items()
    }
    return calibration, robustness


def _mark(network: WatermarkNetwork, covers: Tensor, seed: int) -> tuple[Bytes, Tensor]:
    """8-bit marked pictures (N, 3, H, W) and the messages in them."""
    rng = np.random.default_rng(seed)
    messages = torch.from_numpy(rng.integers(0, 2, (len(covers), network.bits))).float()
    marked = in_chunks(Encoder(network.eval()), covers, messages)
    return rounded(marked.numpy()), messages


def _psnr(residuals: Tensor) -> float:
    mean_squares = residuals.square().mean(dim=(1, 2, 3)).clamp_min(1e-12)
    return float((-10 * mean_squares.log10()).mean())


def _accuracy(logits: Tensor, messages: Tensor) -> float:
    return float(((logits > 0) == (messages > 0.5)).float().mean())
