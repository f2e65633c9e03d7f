import math
from itertools import pairwise

import numpy as np
import pytest

from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.hashing.views import SIDE
from coverlock_sdk.locking.bound import SHARES, additive_bound, agreement, passing, spectra, splits
from coverlock_sdk.locking.secret_rotations import split_bands
from coverlock_sdk.locking.verdict import Floors
from coverlock_sdk.testing import natural_pictures


@pytest.fixture(scope="module")
def code():
    return OctaveCode()


@pytest.fixture(scope="module")
def codes(code):
    pictures = natural_pictures(6, (SIDE, SIDE), seed=2)
    return code.logits(np.moveaxis(pictures, -1, 1).astype(np.float32) / 255)


def test_a_larger_change_reaches_more(code, codes):
    margins = np.full(64, 0.5, np.float32)
    bounds = [additive_bound(code, codes[0], codes[1], margins, db) for db in (46, 40, 34)]
    for weak, strong in pairwise(bounds):
        assert weak.odds <= strong.odds
        assert all(a <= b + 1e-9 for a, b in zip(weak.cosines, strong.cosines, strict=True))


@pytest.mark.parametrize("band", [0, 1, 2])
def test_no_optimiser_reaches_further_than_the_bound(code, codes, band):
    """Projected gradient ascent on the cosine of one band, from several starts."""
    bound = additive_bound(code, codes[2], codes[3], np.full(64, 0.5, np.float32), 37)
    reach, vectors = spectra(code)[band]
    z, s = (split_bands(codes[2:4], code.bands)[band] @ vectors).astype(np.float64)
    s = s / np.linalg.norm(s)
    length = math.sqrt(10**-3.7 * 3 * SIDE**2)
    best, rng = -1.0, np.random.default_rng(0)
    for _ in range(3):
        w = rng.standard_normal(len(z))
        w *= length / np.linalg.norm(w)
        for step in range(400):
            y = z + reach * w
            size = np.linalg.norm(y)
            cosine = s @ y / size
            best = max(best, cosine)
            gradient = reach * (s / size - cosine * y / size**2)
            w = w + length * 0.3 / (1 + step / 40) * gradient / np.linalg.norm(gradient)
            w *= min(1, length / np.linalg.norm(w))
    assert best <= bound.cosines[band] + 1e-6
    assert bound.cosines[band] - best < 0.02


def test_agreement_of_random_margins_follows_from_the_angle():
    margins = np.abs(np.random.default_rng(0).standard_normal(20_000)).astype(np.float32)
    for cosine in (0.0, 0.5, 0.9):
        expected = 1 - math.acos(cosine) / math.pi
        assert agreement(cosine, margins).mean() == pytest.approx(expected, abs=0.01)
    assert agreement(0.7, 2 * margins).mean() > agreement(0.7, margins).mean()


def test_passing_agrees_with_a_simulation():
    rng = np.random.default_rng(0)
    agree = rng.uniform(0.7, 0.95, 63)
    hits = rng.random((20_000, 63)) < agree
    floors = Floors()
    enough = hits.sum(axis=1) >= floors.least(63)
    for band in range(3):
        least = floors.least_in_band(21)
        enough &= hits[:, band::3].sum(axis=1) >= least
    assert passing(agree, 3, floors) == pytest.approx(enough.mean(), abs=0.02)


def test_no_change_has_larger_shares_than_a_split(code):
    """Neither random changes nor those that the bands share the most pixels in."""
    edges = list(pairwise(np.cumsum([0, *code.bands])))
    inverses = [np.linalg.inv(code.gram[a:b, a:b]) for a, b in edges]
    rng = np.random.default_rng(0)
    changes = rng.standard_normal((200, len(code.gram)))
    changes *= rng.choice([0.0, 0.1, 1.0], (200, 3)).repeat(code.bands, axis=1)
    values, vectors = np.linalg.eigh(code.gram)
    changes = np.concatenate([changes, vectors.T[::7], vectors.T[::7] / values[::7, None]])
    for weights in changes:
        moved = code.gram @ weights
        size = weights @ moved
        if size < 1e-9:
            continue
        shares = [
            moved[a:b] @ inverse @ moved[a:b] / size
            for (a, b), inverse in zip(edges, inverses, strict=True)
        ]
        assert any(
            all(share <= limit / SHARES + 1e-6 for share, limit in zip(shares, split, strict=True))
            for split in splits(code)
        ), shares
