import math

import pytest

torch = pytest.importorskip("torch")

from coverlock_plugins.dinov2.head import HashHead  # noqa: E402


def test_the_head_follows_the_paper():
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
