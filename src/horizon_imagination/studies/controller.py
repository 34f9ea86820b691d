"""The controller with the environment itself as its dream: is it to blame, or the world model?

Actor and critic are trained as in a run, from contexts of a replay that they fill themselves, but
every imagined trajectory is played by the real environment, restored to the state in which the
context ends. A controller that learns here and not in its run is let down by its world model.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from einops import rearrange, repeat
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.collect import Collector
from horizon_imagination.config import Config, ControllerConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.engine.dream import Start
from horizon_imagination.envs import make_env
from horizon_imagination.envs.state import State, restore, snapshot
from horizon_imagination.errors import UsageError
from horizon_imagination.imagination import Imagined
from horizon_imagination.learn.controller import ControllerLoss, Outcome
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.streams import Streams
from horizon_imagination.models.recurrent import State as ActorState
from horizon_imagination.returns import until_first_end
from horizon_imagination.run.learners import make_learners, start_at


class Remembering(gymnasium.Wrapper):
    """Keeps the state of the environment at every frame it has shown, in their order."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.states: list[State] = []

    def reset(self, **kwargs: Any) -> Any:
        shown = self.env.reset(**kwargs)
        self._remember()
        return shown

    def step(self, action: Any) -> Any:
        shown = self.env.step(action)
        self._remember()
        return shown

    def _remember(self) -> None:
        state = snapshot(self.env)
        if state is None:
            raise UsageError(
                "this environment cannot be put back into an earlier state, which the study of the "
                "controller needs; embedded worlds and Atari can"
            )
        self.states.append(state)


@dataclass
class PlayedLoss(ControllerLoss):
    """The controller's loss over trajectories that environments play."""

    agent: Agent = field(kw_only=True)
    worlds: list[gymnasium.Env] = field(kw_only=True)
    """One per trajectory."""
    states: list[State] = field(kw_only=True)
    rows: list[int] = field(default_factory=list)
    """The row of the replay in which each context ends."""
    outcome: Outcome | None = None

    @torch.no_grad()
    def imagine(self, start: Start) -> Imagined:
        """Act in the worlds, beginning where the contexts end."""
        for world, row in zip(self.worlds, self.rows, strict=True):
            restore(world, self.states[row])
        logits, states = self.actor(start.z, None, None, start.mask)
        probs, state = logits[:, -1].softmax(-1), states.at(-1)
        over = [False] * len(self.worlds)
        frames = [np.zeros(self.worlds[0].observation_space.shape, np.uint8)] * len(over)  # type: ignore[arg-type]
        actions, latents, rewards, ends = [], [], [], []
        for _ in range(self.imagination.horizon):
            action = torch.multinomial(probs, 1, generator=self.rng).squeeze(-1)
            reward, ended = self._step(action.tolist(), frames, over)
            shown = rearrange(torch.from_numpy(np.stack(frames)), "b h w c -> b c h w")
            z = self.agent.encode(shown.contiguous().to(start.z.device))
            probs, state = self._policy(z, state)
            latents.append(z)
            actions.append(action)
            rewards.append(reward.to(z.device))
            ends.append(ended.to(z.device))
        terminated = torch.stack(ends, dim=1)
        self.outcome = Outcome(torch.stack(rewards, dim=1), terminated, until_first_end(terminated))
        rows = len(self.schedule)
        return Imagined(
            repeat(torch.stack(latents, dim=1), "b t c h w -> row b t c h w", row=rows),
            repeat(torch.stack(actions, dim=1), "b t -> row b t", row=rows),
        )

    def judge(self, start: Start, imagined: Imagined) -> Outcome:
        """What the worlds said."""
        assert self.outcome is not None
        return self.outcome

    def _step(
        self, actions: list[int], frames: list[np.ndarray], over: list[bool]
    ) -> tuple[Tensor, Tensor]:
        """One step of every world that is not over; `frames` and `over` follow."""
        reward, ended = torch.zeros(len(over)), torch.zeros(len(over), dtype=torch.bool)
        for i, world in enumerate(self.worlds):
            if over[i]:
                continue
            frames[i], won, terminated, truncated, _ = world.step(actions[i])
            reward[i], ended[i] = float(won), bool(terminated)
            over[i] = bool(terminated or truncated)
        return reward, ended

    def _policy(self, z: Tensor, state: ActorState) -> tuple[Tensor, ActorState]:
        logits, states = self.actor(rearrange(z, "b c h w -> b 1 c h w"), None, state)
        return logits[:, -1].softmax(-1), states.at(-1)


def played_config(run: Config, controller: ControllerConfig) -> Config:
    """The run's config with this controller: frames one after the other, as a world shows them, a
    batch in one piece, as many worlds as it has trajectories, and no graphs."""
    horizon = run.imagination.horizon
    return replace(
        run,
        imagination=replace(run.imagination, budget=horizon, decay_horizon=1.0),
        controller=replace(controller, learner=replace(controller.learner, micro_batches=1)),
        runtime=replace(run.runtime, graphs=False),
    )


def train(
    source: Agent, config: Config, folder: Path, epochs: int, initial: int
) -> Generator[dict[str, float], None, None]:
    """Collect and learn in turn with the tokenizer of `source`; the figures of every epoch."""
    device, cfg = source.device, config.controller
    torch.manual_seed(config.seed)
    agent = Agent(config, source.num_actions, device)
    agent.tokenizer.load_state_dict(source.tokenizer.state_dict())
    env = Remembering(make_env(config.env, seed=config.seed))
    height, width, channels = env.observation_space.shape  # type: ignore[misc]
    shape = (channels, height, width)
    store = Store.create(folder / "replay", shape, agent.num_actions, config.env.id)
    replay, streams = Replay(store, config.replay), Streams(config.seed, device)
    latents = LatentCache(store, agent.encode, device)
    collector = Collector(env, store, replay, agent, streams["collect"])
    guard, frozen = Guard(folder, every=1), frozenset({"tokenizer"})
    learner = make_learners(agent, replay, latents, streams, guard, frozen).controller
    loss = PlayedLoss(
        agent.actor, agent.critic, agent.denoiser, agent.reward, cfg, config.imagination,
        streams["imagination"], agent=agent, states=env.states,
        worlds=[make_env(config.env, seed=i) for i in range(cfg.learner.batch_size)],
    )  # fmt: skip

    def sample(count: int) -> Start:
        rows = replay.context_rows(count, cfg.context, streams["replay"])
        loss.rows = rows.rows.amax(1).tolist()
        return start_at(agent, replay, latents, rows)

    learner.loss, learner.sample = loss, sample
    try:
        collector.collect(initial, trained=False)
        steps = cfg.learner.steps_per_epoch
        for epoch in range(epochs):
            seen = collector.collect(config.training.collect_steps, trained=epoch > 0)
            latents.refresh()
            sums: dict[str, float] = {}
            for _ in range(steps):
                for name, value in learner.step().items():
                    sums[name] = sums.get(name, 0.0) + float(value) / steps
            if seen.returns:
                sums["env/return"] = sum(seen.returns) / len(seen.returns)
            yield {"epoch": epoch, **sums}
    finally:
        store.close()
        for world in (env, *loss.worlds):
            world.close()
