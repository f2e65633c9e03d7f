"""The optimiser for networks of convolutions."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from coverlock_training.muon import KERNEL_RATE, Muon, orthogonal  # noqa: E402


@pytest.mark.parametrize("shape", [(4, 27), (27, 4), (6, 6)])
def test_all_directions_of_a_matrix_come_to_count_alike(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    one = torch.outer(torch.randn(shape[0]), torch.randn(shape[1]))
    values = torch.linalg.svdvals(orthogonal(one + 0.1 * torch.randn(shape)))
    assert values.max() < 1.3
    assert values.min() > 0.5


def test_no_gradient_is_no_step_and_a_gradient_of_zeros_leaves_kernels_alone() -> None:
    untouched, still = (torch.nn.Parameter(torch.ones(2, 3, 3, 3)) for _ in range(2))
    still.grad = torch.zeros_like(still)
    Muon([untouched, still]).step()
    assert torch.equal(untouched, torch.ones_like(untouched))
    assert torch.equal(still, torch.ones_like(still))


@pytest.mark.parametrize("shape", [(4, 3, 3, 3), (40, 3, 3, 3)])
def test_a_step_of_a_kernel_goes_equally_far_in_all_directions(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    kernel = torch.nn.Parameter(torch.zeros(shape))
    kernel.grad = torch.randn(shape)
    Muon([kernel]).step()
    tall = max(1.0, shape[0] / 27) ** 0.5
    values = torch.linalg.svdvals(kernel.detach().flatten(1)) / (KERNEL_RATE * 1e-3 * tall)
    assert 0.5 < values.min() <= values.max() < 1.3


@pytest.mark.parametrize("shape", [(5,), (4, 6), (4, 3, 1, 1), (1, 3, 8, 8)])
def test_what_is_no_kernel_moves_as_under_adamw(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), torch.randn(4, *shape)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    steps = Muon([ours], weight_decay=0.1), torch.optim.AdamW([theirs], 1e-3, weight_decay=0.1)
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        for optimizer in steps:
            optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_it_goes_on_from_its_state() -> None:
    def network() -> torch.nn.Module:
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 2, 1))

    def learn(net: torch.nn.Module, optimizer: Muon, steps: range) -> None:
        for step in steps:
            torch.manual_seed(step)
            optimizer.zero_grad()
            net(torch.rand(2, 3, 8, 8)).square().mean().backward()
            optimizer.step()

    whole, halves = network(), network()
    learn(whole, Muon(whole.parameters()), range(6))
    first = Muon(halves.parameters())
    learn(halves, first, range(3))
    second = Muon(halves.parameters())
    second.load_state_dict(first.state_dict())
    learn(halves, second, range(3, 6))
    for one, other in zip(whole.parameters(), halves.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_state_of_another_optimizer_is_refused() -> None:
    def started(kind: type[torch.optim.Optimizer]) -> torch.optim.Optimizer:
        kernel = torch.nn.Parameter(torch.ones(2, 3, 3, 3))
        kernel.grad = torch.ones_like(kernel)
        optimizer = kind([kernel])
        optimizer.step()
        return optimizer

    with pytest.raises(ValueError, match="another optimizer"):
        started(Muon).load_state_dict(started(torch.optim.AdamW).state_dict())
