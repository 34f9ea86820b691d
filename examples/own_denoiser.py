"""A denoiser of your own: a U-Net over pixels, no tokenizer. The controller learns in it."""

import sys
from dataclasses import replace

import torch
import torch.nn.functional as F
from unet_world import UNetWorld

import horizon_imagination as hi
from horizon_imagination.presets import PRESETS


def fit(world, env, steps, rng):
    """Random episodes of three steps; velocities by rectified flow, rewards and ends by frame."""
    episodes = [world.random_episode(env, rng) for _ in range(min(600, 20 * steps))]
    frames, actions, rewards, ends = (torch.stack(x) for x in zip(*episodes, strict=True))
    z1, prev = world.encode(frames), F.pad(actions, (1, 0), value=hi.NO_ACTION)
    optimizer = torch.optim.AdamW(world.parameters(), lr=2e-3)
    for step in range(steps):
        rows = torch.randint(len(z1), (64,), generator=rng)
        tau, z0 = hi.sweep_times(64, 4, 1, rng), hi.uniform_noise(64, *z1.shape[1:], rng=rng)
        v = world.velocity(hi.interpolate(z0, z1[rows], tau), tau, prev[rows])
        error = hi.velocity_error(v, z0, z1[rows]) * (1 - tau).square()  # as a loss on clean frames
        reward, end = world.read(z1[rows, 1:]).unbind(-1)
        judged = F.mse_loss(reward, rewards[rows]) + F.mse_loss(end.sigmoid(), ends[rows])
        optimizer.param_groups[0]["lr"] = 2e-3 * (1 - step / steps)
        optimizer.zero_grad()
        (error.mean() + judged).backward()
        optimizer.step()


if __name__ == "__main__":
    out, steps, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config, few = PRESETS["small-catch"][1], {"initial_steps": 300, "collect_steps": 24}
    training = replace(config.training, epochs=epochs, target_return=0.9, strips_every=0, **few)
    config = replace(config, env=replace(config.env, size=16), training=training)
    fit(world := UNetWorld(), hi.make_env(config.env, 0), steps, torch.Generator().manual_seed(0))
    run = hi.train(config, world_model=world.eval().requires_grad_(False), out=out)
    print(f"return {run.agent.evaluate(100).mean:.2f}; random play -0.5, best 1")
