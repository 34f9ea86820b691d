"""Returns: the recursion by hand and by a second way, ends, ranges and scales."""

import pytest
import torch

from horizon_imagination import (
    advantages,
    lambda_returns,
    return_range,
    symexp,
    symlog,
    until_first_end,
    update_return_scale,
)
from horizon_imagination.returns import normal_range


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("length", [1, 2, 32])
def test_a_consistent_value_is_its_own_return_at_every_step(lambda_, length):
    """Reward 1, value 100, discount 0.99: 1 + 0.99 * 100 = 100, the last step included."""
    returns = lambda_returns(
        torch.ones(2, length),
        torch.zeros(2, length, dtype=torch.bool),
        torch.full((2, length + 1), 100.0),
        discount=0.99,
        lambda_=lambda_,
    )
    torch.testing.assert_close(returns, torch.full((2, length), 100.0))


def test_lambda_returns_by_hand():
    """discount 1/2, lambda 1/2; the third step ends its episode."""
    returns = lambda_returns(
        torch.tensor([[1.0, 2.0, 3.0, 4.0]]),
        torch.tensor([[False, False, True, False]]),
        torch.tensor([[9.0, 8.0, 16.0, 99.0, 32.0]]),
        discount=0.5,
        lambda_=0.5,
    )
    # G3 = 4 + 32/2 = 20; G2 = 3; G1 = 2 + (16 + 3)/4 = 6.75; G0 = 1 + (8 + 6.75)/4
    assert returns.tolist() == [[4.6875, 6.75, 3.0, 20.0]]


@pytest.mark.parametrize("seed", range(5))
def test_lambda_returns_are_the_weighted_mean_of_n_step_returns(seed):
    """(1 - l) sum_n l^(n-1) G^(n) + l^(H-t-1) G^(H-t), each G^(n) cut at an end."""
    rng, length, discount, lambda_ = generator(seed), 7, 0.9, 0.8
    rewards = torch.randn(1, length, generator=rng)
    values = torch.randn(1, length + 1, generator=rng)
    terminated = torch.rand(1, length, generator=rng) < 0.2
    got = lambda_returns(rewards, terminated, values, discount=discount, lambda_=lambda_)
    for t in range(length):
        n_step, total, alive = [], 0.0, 1.0
        for k in range(t, length):
            total += alive * rewards[0, k].item()
            alive *= discount * (not terminated[0, k])
            n_step.append(total + alive * values[0, k + 1].item())
        weights = [(1 - lambda_) * lambda_**n for n in range(len(n_step))]
        weights[-1] = lambda_ ** (len(n_step) - 1)
        assert sum(weights) == pytest.approx(1)
        expected = sum(w * g for w, g in zip(weights, n_step, strict=True))
        assert got[0, t].item() == pytest.approx(expected, abs=1e-5)


def test_lambda_zero_and_one_are_one_step_and_monte_carlo():
    rewards, values = torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 6.0, 7.0]])
    going = torch.zeros(1, 2, dtype=torch.bool)
    one_step = lambda_returns(rewards, going, values, discount=0.5, lambda_=0.0)
    whole = lambda_returns(rewards, going, values, discount=0.5, lambda_=1.0)
    assert one_step.tolist() == [[4.0, 5.5]] and whole.tolist() == [[3.75, 5.5]]


def test_nothing_after_an_end_reaches_back_over_it():
    rng = generator()
    terminated = torch.tensor([[False, False, True, False, False]])
    rewards, values = torch.randn(1, 5, generator=rng), torch.randn(1, 6, generator=rng)
    other_rewards, other_values = rewards.clone(), values.clone()
    other_rewards[:, 3:] = 1e6
    other_values[:, 3:] = -1e6
    a = lambda_returns(rewards, terminated, values, discount=0.99, lambda_=0.95)
    b = lambda_returns(other_rewards, terminated, other_values, discount=0.99, lambda_=0.95)
    assert torch.equal(a[:, :3], b[:, :3])


def test_only_steps_up_to_and_including_the_first_end_are_valid():
    terminated = torch.tensor(
        [[False, False, False], [True, False, True], [False, True, True], [False, False, True]]
    )
    valid = [[True, True, True], [True, False, False], [True, True, False], [True, True, True]]
    assert until_first_end(terminated).tolist() == valid


def test_symlog_and_symexp_undo_each_other():
    x = torch.cat([torch.linspace(-50, 50, 101), torch.tensor([1e-6, -1e-6, 1e5])]).double()
    torch.testing.assert_close(symexp(symlog(x)), x)
    torch.testing.assert_close(symlog(torch.tensor(torch.e - 1)), torch.tensor(1.0))
    assert torch.equal(symlog(-x), -symlog(x)) and symexp(torch.zeros(1)).item() == 0


def test_the_range_of_returns_ignores_what_is_masked():
    returns = torch.arange(101.0).reshape(1, 101)
    mask = torch.ones(1, 101, dtype=torch.bool)
    assert return_range(returns, mask).item() == pytest.approx(90)
    padded = torch.cat([returns, torch.full((1, 50), 1e9)], dim=1)
    half = torch.cat([mask, torch.zeros(1, 50, dtype=torch.bool)], dim=1)
    assert return_range(padded, half).item() == pytest.approx(90)


def test_the_range_of_a_normal_distribution_is_that_of_its_percentiles():
    rng = torch.Generator().manual_seed(0)
    returns = 7 * torch.randn(100, 1000, generator=rng) + 3
    mask = torch.rand(100, 1000, generator=rng) < 0.5
    spoiled = torch.where(mask, returns, 1e6)
    expected = return_range(returns, mask).item()
    assert normal_range(spoiled, mask).item() == pytest.approx(expected, rel=0.01)
    assert normal_range(returns, mask & False).item() == 0


def test_a_rare_reward_counts_a_few_times_not_a_hundredfold():
    """One return of 100 among zeros, however rare: the advantage is at most sqrt(n) / 3.29."""
    for count in (20, 200, 2000):
        returns = torch.zeros(1, count)
        returns[0, 7] = 100.0
        mask = torch.ones_like(returns, dtype=torch.bool)
        by_range = advantages(returns, torch.zeros(1, count), return_range(returns, mask))
        by_deviation = advantages(returns, torch.zeros(1, count), normal_range(returns, mask))
        assert by_deviation.max() < count**0.5 / 3.2
        assert count == 20 or by_range.max() == 100


def test_the_scale_starts_at_the_first_range_and_follows_slowly():
    scale = update_return_scale(torch.tensor(torch.nan), torch.tensor(8.0), 0.005)
    assert scale.item() == 8
    assert update_return_scale(scale, torch.tensor(108.0), 0.005).item() == pytest.approx(8.5)


def test_advantages_are_divided_by_the_scale_but_never_enlarged():
    returns, values = torch.tensor([[3.0, 6.0]]), torch.tensor([[1.0, 2.0]], requires_grad=True)
    assert advantages(returns, values, torch.tensor(0.1)).tolist() == [[2.0, 4.0]]
    assert advantages(returns, values, torch.tensor(4.0)).tolist() == [[0.5, 1.0]]
    assert not advantages(returns, values, torch.tensor(1.0)).requires_grad
