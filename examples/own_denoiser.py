"""A denoiser of your own: a U-Net over pixels, no tokenizer. The controller learns in it."""

import sys
from dataclasses import replace

import torch
from unet_world import SIZE, UNetWorld

import horizon_imagination as hi
from horizon_imagination.presets import PRESETS


def fit(world, env, steps, rng):
    """Velocities by rectified flow, rewards and ends by frame, from random episodes."""
    z1, prev, rewards, ends = world.random_episodes(env, min(1500, 20 * steps), rng)
    optimizer = torch.optim.AdamW(world.parameters())
    for step in range(steps):
        rows, other = torch.randint(len(z1), (2, 64), generator=rng)
        tau, z0 = hi.sweep_times(64, 4, 1, rng), hi.uniform_noise(64, *z1.shape[1:], rng=rng)
        # Actions change while frames are noisy: half of those show what others led to.
        strange = ((tau < 1) & (torch.rand(64, 1, generator=rng) < 0.5))[..., None, None, None]
        z = hi.interpolate(z0, torch.where(strange, z1[other], z1[rows]), tau)
        way = world.velocity(z, tau, prev[rows]) * (1 - tau)[..., None, None, None]
        judged = world.judged(z1[rows] + 0.3 * z0, rewards[rows], ends[rows])
        optimizer.param_groups[0]["lr"] = 2e-3 * (1 - step / steps)
        optimizer.zero_grad()
        (hi.velocity_error(way, z, z1[rows]).mean() + judged).backward()
        optimizer.step()


if __name__ == "__main__":
    out, (steps, epochs, seed) = sys.argv[1], map(int, sys.argv[2:])
    config, few = PRESETS["small-catch"][1], {"initial_steps": 300, "collect_steps": 24}
    training = replace(config.training, epochs=epochs, target_return=0.95, strips_every=0, **few)
    env, finer = replace(config.env, size=SIZE), replace(config.imagination, budget=4)
    config = replace(config, env=env, imagination=finer, training=training, seed=seed)
    rng = torch.manual_seed(seed)
    fit(world := UNetWorld(), hi.make_env(env, seed), steps, rng)
    run = hi.train(config, world_model=world.eval().requires_grad_(False), out=out)
    print(f"return {run.agent.evaluate(100).mean:.2f}; random play -0.5, best 1")
