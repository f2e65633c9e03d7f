"""The optimiser for networks of convolutions."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.training.muon import Muon, orthogonal  # noqa: E402


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


def test_what_is_no_kernel_moves_as_under_adamw() -> None:
    torch.manual_seed(0)
    start, gradients = torch.randn(5), torch.randn(4, 5)
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
