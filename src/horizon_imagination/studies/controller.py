"""The controller trained in the real environment instead of the world model.

Actor and critic are trained as in a run, from contexts of a replay that they fill themselves, but
every imagined trajectory is played by the real environment, restored to the state in which the
context ends. If the controller learns here and not in its run, the world model is at fault.
"""

import json
from collections.abc import Generator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from einops import rearrange, repeat
from torch import Tensor

from horizon_imagination.actions import Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.collect import Collector
from horizon_imagination.config import Config, ControllerConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.engine.dream import Start
from horizon_imagination.envs import make_env
from horizon_imagination.envs.state import State, restore, snapshot
from horizon_imagination.errors import UsageError
from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.files import write_jsonl, write_text
from horizon_imagination.imagination import Imagined
from horizon_imagination.learn.batches import ReplayBatches
from horizon_imagination.learn.controller import ControllerLoss, Outcome
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.provenance import provenance
from horizon_imagination.returns import until_first_end
from horizon_imagination.run.folder import is_run
from horizon_imagination.run.read import load_run
from horizon_imagination.snapshots import home
from horizon_imagination.streams import Streams


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

    def replay(self, start: Start, imagined: Imagined) -> Imagined:
        """Nothing to repeat: every frame is what one action led to."""
        return imagined

    def judge(self, start: Start, imagined: Imagined) -> Outcome:
        """Rewards and ends of the real worlds."""
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

    def _policy(self, z: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        logits, states = self.actor(rearrange(z, "b c h w -> b 1 c h w"), None, state)
        return logits[:, -1].softmax(-1), states.at(-1)


def check_actions(agent: Agent) -> None:
    """Refuse an agent whose actions have no numbers, by which they are drawn and played here."""
    if not isinstance(agent.action_space, Discrete):
        raise UsageError(
            f"{agent.config.env.id} has {agent.action_space.words()}; this study needs a world in "
            "which every action is one of a list: name a run in such a world"
        )


def played_config(run: Config, controller: ControllerConfig) -> Config:
    """The run's config with this controller: frames one after the other, as a world shows them, a
    batch in one piece, as many worlds as it has trajectories, and no graphs."""
    horizon = run.imagination.horizon
    return replace(
        run,
        imagination=replace(run.imagination, budget=horizon, decay_horizon=1.0),
        controller=replace(controller, learner=replace(controller.learner, micro_batches=1)),
        runtime=replace(run.runtime, graphs="off"),
    )


def train(
    source: Agent, config: Config, folder: Path, epochs: int, initial: int
) -> Generator[dict[str, float], None, None]:
    """Collect and learn in turn with the tokenizer of `source`; the figures of every epoch."""
    device, cfg = source.device, config.controller
    torch.manual_seed(config.seed)
    agent = Agent(config, source.action_space, device)
    agent.tokenizer.load_state_dict(source.tokenizer.state_dict())
    env = Remembering(make_env(config.env, seed=config.seed))
    height, width, channels = env.observation_space.shape  # type: ignore[misc]
    shape = (channels, height, width)
    store = Store.create(folder / "replay", shape, agent.action_space, config.env.id)
    replay, streams = Replay(store, config.replay), Streams(config.seed, device)
    latents = LatentCache(store, agent.encode, device)
    collector = Collector(env, store, replay, agent, streams["collect"])
    guard, frozen = Guard(folder, every=1), frozenset({"tokenizer"})
    batches = ReplayBatches(agent, replay, latents, streams)
    learner = make_learners(agent, batches, streams, guard, frozen).controller
    loss = PlayedLoss(
        agent.actor, agent.critic, agent.world_model, agent.schedule, cfg, config.imagination,
        streams["imagination"], agent=agent, states=env.states,
        worlds=[make_env(config.env, seed=i) for i in range(cfg.learner.batch_size)],
    )  # fmt: skip

    def sample(count: int) -> Start:
        rows = replay.context_rows(count, cfg.context, streams["replay"])
        loss.rows = rows.rows.amax(1).tolist()
        return batches.contexts_at(rows)

    learner.loss, learner.sample, learner.precision = loss, sample, nullcontext
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


IMAGINED = "controller/imagined_return"
SHOWN = {"return": IMAGINED, "entropy": "controller/entropy", "value": "controller/value"}


class Report:
    """Results so far, and those of the agent's run in its world model."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder = folder
        self.epochs: list[dict[str, float]] = []
        self.dreamed: list[float] = []
        if is_run(home(run)):  # an agent may come without its run
            self.dreamed = load_run(home(run)).series(IMAGINED)[1].tolist()

    def add(self, figures: dict[str, float]) -> str:
        """Keep an epoch on disk; a line for people."""
        self.epochs.append(figures)
        write_jsonl(self.folder / "controller.jsonl", self.epochs)
        text = ", ".join(f"{name} {figures[key]:.4g}" for name, key in SHOWN.items())
        played = f", played {figures['env/return']:.4g}" if "env/return" in figures else ""
        return f"epoch {len(self.epochs)}: within the horizon {text}{played}"

    def summary(self) -> dict[str, Any]:
        """First and last return within the horizon, in the environment and in the world model."""
        played = [epoch[IMAGINED] for epoch in self.epochs]
        found: dict[str, Any] = {"epochs": len(played), "game": [played[0], played[-1]]}
        same = self.dreamed[: len(played)]
        if same:
            found["dreams"] = [same[0], same[-1]]
        return found | provenance()

    def finish(self) -> list[str]:
        """Write the figure and the summary; what was found, in words."""
        found = self.summary()
        write_text(self.folder / "controller.json", json.dumps(found, indent=2) + "\n")
        lines = [
            "in the environment itself the return within the horizon went from "
            f"{found['game'][0]:.4g} (first epoch) to {found['game'][1]:.4g}"
        ]
        if "dreams" in found:
            lines.append(
                f"in the run's world model, over as many epochs, from {found['dreams'][0]:.4g} "
                f"to {found['dreams'][1]:.4g}"
            )
        try:
            self._draw(self.folder / "controller.png")
            lines.append(f"figure: {self.folder / 'controller.png'}")
        except ImportError:
            lines.append("no figure: matplotlib is not installed")
        return lines

    def _draw(self, path: Path) -> None:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(5.2, 3.2), layout="constrained")
        axes = figure.subplots()
        played = [epoch[IMAGINED] for epoch in self.epochs]
        axes.plot(range(1, len(played) + 1), played, color=PALETTE[0], label="in the game itself")
        same = self.dreamed[: len(played)]
        if same:
            axes.plot(range(1, len(same) + 1), same, color=PALETTE[1], label="in the run's dreams")
        axes.set(xlabel="epochs of the controller", ylabel="return within the horizon")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        save_figure(figure, path)
