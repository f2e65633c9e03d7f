from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.hashing.nano import NanoHash  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training.hashes.adversary import Adversary  # noqa: E402


@pytest.fixture(scope="module")
def batch() -> torch.Tensor:
    pictures = natural_pictures(6, (96, 96), seed=2).transpose(0, 3, 1, 2)
    clean = torch.from_numpy(np.ascontiguousarray(pictures)).float() / 255
    return torch.cat([clean, clean])


def test_only_some_distorted_views_change_and_within_the_budget(batch: torch.Tensor) -> None:
    adversary = Adversary(share=0.5, steps=2, psnr=(30, 30))
    changed = adversary.attacked(NanoHash().module(), batch, np.random.default_rng(0))
    deviation = (changed - batch).square().mean(dim=(1, 2, 3)).sqrt()
    assert (deviation[:6] == 0).all()
    assert (deviation[6:] > 0).sum() == 3
    assert deviation.max() <= 10 ** (-30 / 20) * 1.001


def test_attacks_stay_in_the_first_part_of_a_batch(batch: torch.Tensor) -> None:
    adversary = Adversary(share=0.5, among=0.5, steps=1)
    changed = adversary.attacked(NanoHash().module(), batch, np.random.default_rng(0))
    assert (changed != batch).flatten(1).any(dim=1).tolist() == [False] * 6 + [True] * 3 + [
        False
    ] * 3


@pytest.mark.parametrize("evasion", [0.0, 1.0])
def test_attacks_flip_more_bits_than_noise_does(batch: torch.Tensor, evasion: float) -> None:
    hash_ = NanoHash().module()
    adversary = Adversary(share=1.0, steps=3, psnr=(34, 34), evasion=evasion)
    changed = adversary.attacked(hash_, batch, np.random.default_rng(0))
    noise = torch.randn(batch.shape, generator=torch.Generator().manual_seed(0))
    noisy = (batch + 10 ** (-34 / 20) * noise).clamp(0, 1)
    with torch.inference_mode():
        clean, attacked, shaken = (hash_(x[6:]) > 0 for x in (batch, changed, noisy))
    assert (attacked != clean).float().mean() > 3 * (shaken != clean).float().mean()
