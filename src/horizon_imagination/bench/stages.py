"""The stages of an epoch of learning, one function to repeat for each."""

from collections.abc import Callable
from typing import Any

import torch

from horizon_imagination.bench.clock import captured
from horizon_imagination.bench.setting import Setting
from horizon_imagination.config import Config
from horizon_imagination.engine.dream import Start
from horizon_imagination.engine.rollout import RecordedActor, imagine_windowed
from horizon_imagination.imagination import Imagined
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.run.learners import Learners

Call = Callable[[], Any]


def imagination(setting: Setting, learners: Learners, config: Config, batch: int) -> Call:
    """All of imagination with the policy: draws, first action, every window, every action."""
    loss = setting.loss(learners, config)

    def compute(start: Start) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad(), setting.precision():
            imagined = loss.imagine(start)
        return imagined.z[-1], imagined.actions[-1]

    return _repeatable(compute, learners.controller.sample(batch), loss, config)


def denoiser(setting: Setting, learners: Learners, config: Config, batch: int) -> Call:
    """The same windows with the actions given."""
    loss = setting.loss(learners, config)
    start = learners.controller.sample(batch)
    noise = loss.draw(start).noise
    actions = torch.zeros(noise.shape[:2], dtype=torch.long, device=noise.device)

    def compute(given: tuple[Start, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        start, noise, actions = given
        context, real = start.world_model_context(config.imagination.context)
        with setting.precision():
            imagined = imagine_windowed(
                loss.denoiser, RecordedActor(actions), noise, loss.schedule, context, real=real
            )
        return imagined.z[-1]

    return _repeatable(compute, (start, noise, actions), loss, config)


def rewards(setting: Setting, learners: Learners, config: Config, batch: int) -> Call:
    """Rewards and ends of trajectories that were imagined before."""
    loss = setting.loss(learners, config)
    start = learners.controller.sample(batch)
    noise = loss.draw(start).noise
    actions = torch.zeros(noise.shape[:2], dtype=torch.long, device=noise.device)

    def compute(given: tuple[Start, torch.Tensor, torch.Tensor]) -> Any:
        start, *clean_row = given
        with setting.precision():
            return loss.judge(start, Imagined(*clean_row))

    return _repeatable(compute, (start, noise[None], actions[None]), loss, config)


def encoding(setting: Setting) -> Call:
    """Every frame of the replay to latents, as after a change of the tokenizer."""

    def encode() -> None:
        setting.latents.forget()
        setting.latents.refresh()

    return encode


def _repeatable(
    compute: Callable[[Any], Any], batch: Any, loss: ControllerLoss, config: Config
) -> Call:
    if config.runtime.graphs and loss.rng.device.type == "cuda":
        compute = captured(compute, [loss.rng])
    return lambda: compute(batch)
