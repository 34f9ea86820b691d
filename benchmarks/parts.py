"""Train one part of an agent anew under the settings of a suite, in the world of one run.

Why: whole runs are dear, and two of them differ in everything at once. Here the replay and all
other networks stay those of the run. Each setting trains the part for --seconds, so that cheaper
steps count. A new reward or world model is judged on fresh steps, which no learner has seen: its
error, and what it reads and imagines there over what was paid. A new controller is judged by what
it imagines, whether it sees (information of state and action), and by play. The last line is JSON.

    python benchmarks/parts.py RUN benchmarks/suites/fast-candidates.toml --part controller
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.collect import Collector
from horizon_imagination.config import Config
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import autocast
from horizon_imagination.engine.graph import WARM_UP
from horizon_imagination.envs import known, make_env
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.learn.batches import ReplayBatches
from horizon_imagination.learn.dreamed_reward import dreamed_reward
from horizon_imagination.learn.fresh import fresh_experience
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learner import Learner
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.world_model import reward_terms
from horizon_imagination.provenance import provenance
from horizon_imagination.run.folder import REPLAY
from horizon_imagination.scale.suite import overridden, read_file
from horizon_imagination.streams import Streams
from horizon_imagination.timing import drain

RENEWED = {
    "reward": ("reward",),
    "world_model": ("denoiser", "reward"),
    "controller": ("actor", "critic"),
}
FRESH, PLAYED, LAST = 991, 123, 50
"""Seeds of the fresh steps and of the episodes; the last steps over which figures are averaged."""


@contextmanager
def played(agent: Agent, folder: Path, steps: int) -> Iterator[Replay]:
    """New play by the agent."""
    cfg, env = agent.config, make_env(agent.config.env, seed=FRESH)
    store = Store.create(folder, known.frame_shape(env), agent.action_space, cfg.env.id)
    replay, rng = Replay(store, cfg.replay), Streams(FRESH, agent.device)["collect"]
    Collector(env, store, replay, agent, rng).collect(steps, trained=True)
    env.close()
    yield replay
    store.close()


def renewed(source: Agent, config: Config, part: str) -> Agent:
    """An agent whose part is new, and everything else the source's."""
    agent = Agent(config, source.action_space, source.device)
    mine, theirs = agent.networks(), source.networks()
    for name in mine.keys() - set(RENEWED[part]):
        mine[name].load_state_dict(theirs[name].state_dict())
    if "denoiser" not in RENEWED[part] and agent.denoiser_average is not None:
        agent.denoiser_average.load_state_dict(source.imagination_denoiser.state_dict())
    return agent


def train(learner: Learner, device: torch.device, seconds: float) -> dict[str, float]:
    """Steps for so many seconds, after those that launch and capture; the last figures."""
    for _ in range(WARM_UP + 1):
        learner.step()
    drain(device)
    begun, recent, steps = time.monotonic(), [], 0
    while time.monotonic() - begun < seconds:
        recent = [*recent[-LAST + 1 :], learner.step()]
        steps += 1
        if steps % LAST == 0:
            drain(device)  # the host must not run ahead of the clock
    drain(device)
    spent = time.monotonic() - begun
    found = {name: sum(float(x[name]) for x in recent) / len(recent) for name in recent[0]}
    return {"steps": steps, "ms": 1000 * spent / steps} | found


@torch.no_grad()
def judge_world(agent: Agent, replay: Replay, steps: int) -> dict[str, float]:
    """The reward model's error on fresh steps, and the rewards of a dream of the same actions."""
    rng, fresh = torch.Generator().manual_seed(0), fresh_experience(agent, replay, steps)
    assert fresh is not None
    with autocast(agent.config.runtime, agent.device):
        term = reward_terms(agent.reward, fresh)[0]["reward"]
        paid = dreamed_reward(agent.world_model, fresh, agent.schedule, rng)
    found = {name: float(value) for name, value in paid.items()}
    real = found["real_reward"]
    ratios = {f"{x}_over_real": found[f"{x}_reward"] / real for x in ("read", "imagined") if real}
    return {"fresh_error": float(term.total / term.count), "real": real} | ratios


def judge_controller(agent: Agent, episodes: int, steps: int) -> dict[str, float]:
    """Returns of episodes that are cut off after so many steps."""
    env = replace(agent.config.env, time_limit=steps)
    found = evaluate(agent, Protocol(env, episodes, PLAYED, False, episodes))
    rewards = torch.tensor([episode.total_reward for episode in found])
    error = float(rewards.std() / len(rewards) ** 0.5)
    return {"return": float(rewards.mean()), "standard_error": error}


def main() -> None:
    """A row per setting, printed as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("suite", type=Path, help="its settings are tried; its worlds do not count")
    parser.add_argument("--part", choices=list(RENEWED), required=True)
    parser.add_argument("--only", nargs="*", default=[], help="names of settings; all if none")
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--fresh", type=int, default=3000, help="fresh steps")
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--play", type=int, default=400, help="steps of an episode")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    source = Agent.load(args.run, args.device)
    device, store, rows = source.device, Store.open(args.run / REPLAY), []
    base = replace(source.config, env=source.config.env.trusted())
    with (
        tempfile.TemporaryDirectory() as scratch,
        played(source, Path(scratch) / "fresh", args.fresh) as fresh,
    ):
        for setting in read_file(args.suite).settings:
            if args.only and setting.name not in args.only:
                continue
            config = overridden(base, setting.override, str(args.suite))
            agent, streams = renewed(source, config, args.part), Streams(config.seed, device)
            latents = LatentCache(store, agent.encode, device)
            latents.refresh()
            batches = ReplayBatches(agent, Replay(store, config.replay), latents, streams)
            frozen = {"tokenizer", "denoiser"} - set(RENEWED[args.part])
            made = make_learners(
                agent, batches, streams, Guard(Path(scratch), 25), frozenset(frozen)
            )
            learner = made.controller if args.part == "controller" else made.world_model
            assert learner is not None
            row = {"setting": setting.name} | train(learner, device, args.seconds)
            if args.part == "controller":
                row |= judge_controller(agent, args.episodes, args.play)
            else:
                row |= judge_world(agent, fresh, args.fresh)
            rows.append(row)
            print(json.dumps(row), flush=True)
    about = {"bench": "parts", "run": args.run.name, "part": args.part, "rows": rows}
    print(json.dumps(about | provenance()))


if __name__ == "__main__":
    main()
