"""Each term of the objective on a case worked by hand."""

import math

import pytest

torch = pytest.importorskip("torch")

from coverlock_training.hashes import losses  # noqa: E402
from coverlock_training.hashes.losses import Objective  # noqa: E402


def test_contrastive_of_two_orthogonal_pictures():
    e = torch.eye(2)
    # Each view sees its partner at similarity 1 and the two views of the other picture at 0.
    expected = -math.log(math.exp(2) / (math.exp(2) + 2))
    assert losses.contrastive(e, e, temperature=0.5).item() == pytest.approx(expected, rel=1e-5)


def test_stability_is_the_mean_squared_change():
    c = torch.tensor([[1.0, -1.0], [0.5, 0.0]])
    moved = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert losses.stability(c, moved).item() == pytest.approx((4 + 0.25) / 4)


def test_balance_is_the_mean_square_of_bit_means():
    c = torch.tensor([[1.0, 1.0], [1.0, -1.0]])  # means 1 and 0
    assert losses.balance(c).item() == pytest.approx(0.5)


def test_variance_charges_only_the_shortfall():
    still = torch.zeros(4, 1)
    lively = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    assert losses.variance(still, still, target=0.5).item() == pytest.approx(0.5)
    assert losses.variance(lively, lively, target=0.5).item() == 0
    assert losses.variance(still, lively, target=0.5).item() == pytest.approx(0.25)


def test_independence_is_the_mean_square_of_inner_products():
    # Inner products over L = 2: 1, 0, 0 for the three pairs.
    c = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    assert losses.independence(c).item() == pytest.approx(1 / 3)


def test_decorrelation_sees_equal_bits_and_ignores_independent_ones():
    bit = torch.tensor([1.0, 1.0, -1.0, -1.0])
    other = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert losses.decorrelation(torch.stack([bit, bit], 1)).item() == pytest.approx(1, rel=1e-3)
    assert losses.decorrelation(torch.stack([bit, other], 1)).item() == pytest.approx(0, abs=1e-6)


def test_confidence_is_softplus_of_the_missing_margin():
    z, z_distorted = torch.tensor([[1.0]]), torch.tensor([[-3.0]])
    expected = (math.log(2) + math.log1p(math.exp(-2))) / 2
    assert losses.confidence(z, z_distorted, margin=1.0).item() == pytest.approx(expected)


def test_the_default_objective_is_the_papers_sum():
    torch.manual_seed(0)
    e, e_distorted = torch.nn.functional.normalize(torch.randn(2, 6, 8), dim=2)
    z, z_distorted = torch.randn(2, 6, 4)
    terms = Objective().terms(e, e_distorted, z, z_distorted)
    code = (
        2 * terms["stability"]
        + 5 * terms["balance"]
        + 5 * terms["variance"]
        + 1 * terms["independence"]
        + 0.05 * terms["decorrelation"]
    )
    expected = terms["contrastive"] + 0.0125 * terms["confidence"] + 0.25 * code
    assert terms["total"].item() == pytest.approx(expected.item(), rel=1e-6)
