"""The optimiser for networks of convolutions."""

import pytest

torch = pytest.importorskip("torch")

from coverlock_training.muon import KERNEL_RATE, Muon  # noqa: E402


@pytest.mark.parametrize("shape", [(4, 3, 3, 3), (40, 3, 3, 3)])
def test_a_step_of_a_kernel_goes_equally_far_in_all_directions(shape):
    torch.manual_seed(0)
    kernel = torch.nn.Parameter(torch.zeros(shape))
    kernel.grad = torch.randn(shape)
    Muon([kernel]).step()
    tall = max(1.0, shape[0] / 27) ** 0.5
    values = torch.linalg.svdvals(kernel.detach().flatten(1)) / (KERNEL_RATE * 1e-3 * tall)
    assert 0.5 < values.min() <= values.max() < 1.3


@pytest.mark.parametrize("shape", [(5,), (4, 6), (4, 3, 1, 1), (1, 3, 8, 8)])
def test_what_is_no_kernel_moves_as_under_adamw(shape):
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), torch.randn(4, *shape)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    steps = Muon([ours], weight_decay=0.1), torch.optim.AdamW([theirs], 1e-3, weight_decay=0.1)
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        for optimizer in steps:
            optimizer.step()
    torch.testing.assert_close(ours, theirs)
