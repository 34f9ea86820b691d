"""A policy of your own, acting in frames while they are denoised; stable against naive actions."""

import torch

import horizon_imagination as hi
from horizon_imagination.config import EnvConfig
from horizon_imagination.studies.exact_catch import ExactCatch

BATCH, HORIZON, BUDGET = 256, 3, 6


def policy(z, tau):
    """Probabilities of left, stay, right: towards the ball, as sure as the frame is clean."""
    columns = torch.arange(4.0)
    ball = (torch.softmax(8 * z[:, :, 0].amax(2), -1) * columns).sum(-1)  # the reddest column
    paddle = (torch.softmax(8 * z[:, :, 2, -1], -1) * columns).sum(-1)  # blue, in the lowest row
    wish = torch.stack([paddle - ball, torch.zeros_like(ball), ball - paddle], dim=-1)
    return torch.softmax(3 * tau[..., None] * wish, dim=-1)


if __name__ == "__main__":
    world, rng = ExactCatch(cells=4, size=16), torch.Generator().manual_seed(0)
    env = hi.make_env(EnvConfig(id="small-catch", size=16), 0)
    frames = torch.stack([torch.from_numpy(env.reset()[0].copy()) for _ in range(BATCH)])
    z = world.encode(frames.movedim(-1, 1)[:, None])
    context = hi.Context(z, torch.full((BATCH, 1), hi.NO_ACTION))
    first = policy(z, torch.ones(BATCH, 1))[:, 0].multinomial(1, generator=rng)[:, 0]
    noise = hi.uniform_noise(BATCH, HORIZON, *world.latent_shape, rng=rng)
    schedule = hi.horizon_schedule(HORIZON, BUDGET, decay_horizon=2)
    stable = hi.stable_actor(policy, hi.roll(BATCH, HORIZON - 1, num_actions=3, rng=rng))
    rows = len(schedule)
    naive = hi.naive_actor(policy, hi.roll(rows, BATCH, HORIZON - 1, num_actions=3, rng=rng))
    for name, actor in {"stable": stable, "naive": naive}.items():
        future = hi.imagine(
            world.velocity, actor, noise, schedule, context=context, first_action=first
        )
        reward, _ = world.reward_and_end(future.z[-1])
        changes = hi.change_count(future, schedule)
        print(f"{name}: return {reward.sum(1).mean():.2f}, {changes:.2f} changes per action")
