"""A head that is computed from features instead of learned."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from coverlock_sdk.training.hashes.discriminant import Discriminant, Separation
from coverlock_sdk.training.hashes.figures import pair_agreement

FEATURES, STEADY, TOGETHER = 400, 300, 4


def distorted(clean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Clean features and two views of them, in which the last features are lost in noise."""
    noise = np.where(np.arange(FEATURES) < STEADY, 0.1, 3.0)
    views = [clean + noise * rng.standard_normal(clean.shape) for _ in range(2)]
    return np.stack([clean, *views], axis=1).astype(np.float32)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def photos(rng: np.random.Generator) -> np.ndarray:
    return distorted(5 + 2 * rng.standard_normal((1200, FEATURES)), rng)


@pytest.fixture
def drawn(rng: np.random.Generator) -> np.ndarray:
    """Groups of one template each, which is three times as strong as what differs within."""
    templates = 3 * rng.standard_normal((100, 1, FEATURES))
    templates[:, :, 40:] = 0
    within = rng.standard_normal((100, TOGETHER, FEATURES))
    return distorted(5 + (templates + within).reshape(-1, FEATURES), rng)


def logits(features: np.ndarray, head: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return features @ head[0].T + head[1]


def test_bits_are_balanced_and_survive_distortions(photos: np.ndarray, drawn: np.ndarray) -> None:
    head = Discriminant().fit(photos[:1000], drawn, TOGETHER)
    unseen = logits(photos[1000:], head)
    bits = unseen > 0
    assert head[0].shape == (256, FEATURES)
    assert (bits[:, 0] != bits[:, 1]).mean() < 0.06  # a random direction loses one in three
    assert abs(bits[:, 0].mean() - 0.5) < 0.02
    assert unseen[:, 0].std() == pytest.approx(1, abs=0.1)
    agreement = pair_agreement(bits[:, 0])
    assert agreement.mean() == pytest.approx(0.5, abs=0.005)
    assert agreement.std() < 0.035


def test_templates_are_overlooked(photos: np.ndarray, drawn: np.ndarray) -> None:
    def alike(discriminant: Discriminant) -> float:
        codes = logits(drawn[:, 0], discriminant.fit(photos, drawn, TOGETHER)) > 0
        groups = codes.reshape(-1, TOGETHER, 256)
        return float(np.mean([pair_agreement(group).mean() for group in groups]))

    assert alike(Discriminant()) < alike(Discriminant(templates=0.0)) - 0.03


def test_the_steadiest_directions_may_count_more(photos: np.ndarray, drawn: np.ndarray) -> None:
    def error(preference: float) -> float:
        head = Discriminant(preference=preference).fit(photos, drawn, TOGETHER)
        bits = logits(photos, head) > 0
        return float((bits[:, 0] != bits[:, 1]).mean())

    assert error(1.0) <= error(0.0)


def test_templates_are_told_from_photos(photos: np.ndarray, drawn: np.ndarray) -> None:
    moved = drawn + np.where(np.arange(FEATURES) < 20, 4, 0).astype(np.float32)
    head = Separation().fit(photos, moved)
    assert np.mean(logits(photos[:, 0], head) < 0) > 0.99
    assert np.mean(logits(moved[:, 0], head) > 0) > 0.9
    cautious = Separation(caution=3.0).fit(photos, moved)
    assert np.all(logits(photos[:, 0], cautious) < logits(photos[:, 0], head))
