"""Whether dreams still pay if their actions do not change while frames are denoised.

An action may change as the frame it is taken on becomes clear, after the frame it leads to has
begun. The world model was trained on frames that one action led to. A policy that learns at noisy
frames from rewards can find changes that make it imagine a reward neither action earns. The same
noise and the last actions, given from the start, do not pay such rewards.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.engine.dream import Start
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.learn.ranks import Ranks


@torch.no_grad()
def replayed_reward(
    loss: ControllerLoss, start: Start, rng: torch.Generator
) -> dict[str, Float[Tensor, ""]]:
    """What dreams from these contexts pay, and what their last actions pay from the same noise.

    Means over contexts, up to the first end. Nothing where no frame is noisy when it is acted on.
    """
    if not loss.plan.frames:
        return {}
    loss = replace(loss, rng=rng, ranks=Ranks())
    dream = loss.imagine(start)
    found = {"dreamed_reward": dream, "replayed_reward": loss.replay(start, dream)}
    judged = {name: loss.judge(start, imagined) for name, imagined in found.items()}
    return {name: (x.reward * x.valid).sum(1).mean() for name, x in judged.items()}
