"""The world model of `own_denoiser.py`: pixels are latents, a U-Net gives velocities."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SIZE, PAST, WIDTH = 8, 3, 32


class UNetWorld(nn.Module):
    """A frame is denoised from itself and the three before it, each with its time and action."""

    latent_shape = (3, SIZE, SIZE)

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d((PAST + 1) * (3 + 1 + 3), WIDTH, 3, padding=1)
        self.down = nn.Conv2d(WIDTH, 2 * WIDTH, 2, stride=2)
        self.deepest = nn.Conv2d(2 * WIDTH, 8 * WIDTH, SIZE // 2)  # sees all of the frame
        self.think = nn.Conv2d(8 * WIDTH, 8 * WIDTH, 1)
        self.rise = nn.ConvTranspose2d(8 * WIDTH, 2 * WIDTH, SIZE // 2)
        self.up = nn.ConvTranspose2d(4 * WIDTH, WIDTH, 2, stride=2)
        self.leave = nn.Conv2d(2 * WIDTH, 3, 3, padding=1)
        self.judge = nn.Sequential(nn.Linear(3 * SIZE**2, 64), nn.SiLU(), nn.Linear(64, 2))

    def encode(self, frames):
        return frames.float() / 127.5 - 1

    def decode(self, z):
        return ((z.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)

    def velocity(self, z, tau, prev_actions, real=None):
        time = tau[..., None, None, None].expand(*z.shape[:2], 1, SIZE, SIZE)
        action = F.one_hot(prev_actions + 1, 4)[..., 1:].float()  # no action: all zero
        seen = torch.cat([z, time, action[..., None, None].expand(-1, -1, -1, SIZE, SIZE)], dim=2)
        padded = F.pad(seen, (0, 0, 0, 0, 0, 0, PAST, 0))
        length = z.shape[1]
        window = torch.cat([padded[:, i : i + length] for i in range(PAST + 1)], dim=2)
        clean = self.clean(window.flatten(0, 1)).view_as(z)
        return (clean - z) / (1 - tau).clamp(min=1e-3)[..., None, None, None]

    def clean(self, x):
        top = F.silu(self.enter(x))
        low = F.silu(self.down(top))
        deep = F.silu(self.think(F.silu(self.deepest(low))))
        deep = F.silu(self.rise(deep))
        high = F.silu(self.up(torch.cat([low, deep], dim=1)))
        return torch.tanh(self.leave(torch.cat([top, high], dim=1)))

    def read(self, z):
        return self.judge(z.flatten(2))

    def reward_and_end(self, z, real=None):
        reward, end = self.read(z).unbind(-1)
        return reward, end.sigmoid()

    def judged(self, z, rewards, ends):
        """How wrong rewards and ends are."""
        reward, end = self.read(z).unbind(-1)
        ended = F.binary_cross_entropy_with_logits(end, ends)
        return F.mse_loss(reward, rewards) + ended

    def random_episodes(self, env, count, rng):
        """Latents, previous actions, rewards and ends of three random steps.

        Each episode also comes without its first frame, since imagination starts later, too.
        """
        rows = [row for _ in range(count) for row in self.random_steps(env, rng)]
        frames, prev, rewards, ends = zip(*rows, strict=True)
        z = self.encode(torch.from_numpy(np.stack(frames)).movedim(-1, 1))
        columns = [z, torch.tensor(prev), torch.tensor(rewards), torch.tensor(ends)]
        whole = [x.unflatten(0, (count, 4)) for x in columns]
        return [torch.cat([x, x[:, [1, 2, 3, 3]]]) for x in whole]  # after the end nothing moves

    def random_steps(self, env, rng):
        """An episode, a row for every frame."""
        yield env.reset()[0], -1, 0.0, 0.0
        for action in torch.randint(3, (3,), generator=rng).tolist():
            frame, reward, end, _, _ = env.step(action)
            yield frame, action, float(reward), float(end)
