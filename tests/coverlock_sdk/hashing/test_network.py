from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.hashing.network import HashHead, HashNetwork, NanoBackbone, normalise  # noqa: E402
from coverlock_sdk.images.resampling import resample_matrix, window_matrix  # noqa: E402


@pytest.fixture
def network() -> HashNetwork:
    torch.manual_seed(0)
    return HashNetwork(NanoBackbone()).eval()


def test_the_head_follows_the_paper() -> None:
    torch.manual_seed(0)
    head = HashHead(10)
    pooled = torch.randn(3, 10)
    x = (pooled - pooled.mean(1, keepdim=True)) / (
        pooled.var(1, correction=0, keepdim=True) + 1e-5
    ).sqrt()
    x = x @ head.hidden.weight.T + head.hidden.bias
    x = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    x = x @ head.output.weight.T + head.output.bias
    e = x / x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(head.embed(pooled), e)
    torch.testing.assert_close(head(pooled), math.sqrt(512) * e @ head.projection)


def test_the_projection_is_fixed_and_orthonormal() -> None:
    head = HashHead(10)
    torch.testing.assert_close(
        head.projection.T @ head.projection, torch.eye(256), atol=1e-5, rtol=0
    )
    assert "projection" in head.state_dict()
    assert "projection" not in dict(head.named_parameters())


def test_scale_never_changes_a_bit() -> None:
    head, pooled = HashHead(10), torch.randn(5, 10)
    before = head(pooled) > 0
    with torch.no_grad():
        head.log_scale += 2
    assert torch.equal(head(pooled) > 0, before)


def test_nano_maps_pictures_to_256_logits(network: HashNetwork) -> None:
    images = torch.rand(2, 3, 96, 96)
    assert network(images).shape == (2, 256)
    assert network.embed(images).norm(dim=1).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_pooled_features_are_the_mean_over_windows(network: HashNetwork) -> None:
    images = torch.rand(2, 3, 96, 96)
    backbone = network.backbone
    each = [backbone.pool(window @ images @ window.T) for window in backbone.windows]
    torch.testing.assert_close(backbone(images), torch.stack(each).mean(0), atol=1e-5, rtol=1e-4)


def test_brightness_and_contrast_without_clipping_are_undone() -> None:
    images = 0.3 + 0.4 * torch.rand(1, 3, 8, 8)
    changed = 1.2 * images - 0.1
    torch.testing.assert_close(normalise(images), normalise(changed), atol=1e-2, rtol=0)


def test_the_whole_window_is_the_canonical_resampling() -> None:
    np.testing.assert_allclose(window_matrix(96, 64, 1.0), resample_matrix(96, 64), atol=1e-6)


def test_a_window_sees_only_the_centre() -> None:
    seen = window_matrix(100, 10, 0.5).sum(axis=0)
    assert seen[:20].sum() == 0
    assert seen[-20:].sum() == 0
    assert seen[30:70].min() > 0
