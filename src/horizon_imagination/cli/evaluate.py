"""`horizon evaluate RUN`: play episodes with a stated protocol and say how good the agent is."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from horizon_imagination.cli.parse import parse_with_run_defaults
from horizon_imagination.cli.place import place_of
from horizon_imagination.config import EnvConfig
from horizon_imagination.errors import UsageError
from horizon_imagination.files import output_file, write_json

if TYPE_CHECKING:
    from horizon_imagination.evaluate import Protocol

FILM_HEIGHT = 256
"""Films are at least this high; their pixels are enlarged by a whole number."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Evaluate the agent of a run (its best snapshot, else its latest) and store every episode.

    With --random actions are random: the baseline of the run's environment, or of --env.
    """

    run: tyro.conf.Positional[Path | None] = None
    """A run, one of its snapshots, or an agent's file; catch or fog for agents of the package."""
    random: bool = False
    """Play at random instead of with the agent."""
    episodes: int = 100
    """Episodes to play."""
    seed: int = 0
    """Seed of episodes and actions."""
    greedy: bool = False
    """Take the most probable action instead of sampling."""
    parallel: int = 16
    """Episodes played concurrently."""
    workers: int = 0
    """Processes that play them; 0 takes one a core for Atari on more than four cores, else this
    one. Results do not depend on it."""
    out: Path | None = None
    """File for the results; by default in evaluations/ of the run (random play: baselines/)."""
    json: bool = False
    """Print the results as one JSON object."""
    video: Path | None = None
    """Also write a film of the first episode."""
    video_episodes: int = 1
    """Episodes in the film, one after the other."""
    device: str = "auto"
    """cuda, cuda:N, mps, cpu, or auto for the best one available."""
    trust: bool = False
    """Import the environment that the run's own files name as `module:Name`."""
    env: EnvConfig = field(default_factory=lambda: EnvConfig(id=""))


def main(argv: list[str]) -> int | None:
    """Play, store every episode, and print what they say."""
    args = parse_with_run_defaults(
        Arguments, argv, prog="horizon evaluate", run="run", section="env"
    )
    _check(args)
    from horizon_imagination.agent import Agent
    from horizon_imagination.evaluate import Protocol, default_workers, evaluate
    from horizon_imagination.run.display import counted
    from horizon_imagination.run.evaluation import (
        check_protocol,
        evaluation,
        evaluation_file,
        told,
    )
    from horizon_imagination.timing import cores

    place = None if args.run is None else place_of(args.run)
    snapshot = None if args.random or place is None else place.agent
    agent = None if snapshot is None else Agent.load(snapshot, args.device)
    protocol = Protocol(args.env, args.episodes, args.seed, args.greedy, args.parallel)
    check_protocol(agent, protocol)
    path = args.out or (evaluation_file(place.results, snapshot, protocol) if place else None)
    for file, flag in ((path, "--out"), (args.video, "--video")):
        if file is not None:
            output_file(file, flag)  # better now than after an hour of play
    if not args.json:
        print("\n".join(_played(snapshot) + protocol.lines() if snapshot else _at_random(protocol)))
    films: list[list] = [[] for _ in range(args.video_episodes)] if args.video else []
    with counted("episodes", args.episodes) as on_steps:
        workers = args.workers or default_workers(protocol, cores())
        played = evaluate(agent, protocol, films=films, on_steps=on_steps, workers=workers)
    content = evaluation(snapshot, protocol, played, str(agent.device) if agent else "cpu")
    # Said before it is stored: what was played is not lost if the disk is full by now.
    as_json = json.dumps(content | {"file": str(path) if path else None})
    print(as_json if args.json else "\n".join(told(content)), flush=True)
    stored = [] if path else ["not stored: name a file with --out"]
    if path is not None:
        write_json(path, content)
        stored.append(f"every episode: {path}")
    if args.video is not None:
        _write_film(args.video, films)
        stored.append(f"film: {args.video}")
    if not args.json:
        print("\n".join(stored))
    return 0


def _check(args: Arguments) -> None:
    if args.run is None and not args.random:
        raise UsageError("name a run (horizon evaluate RUN), or --random --env ID for random play")
    if not args.env.id:
        raise UsageError("say which world to play: --env ID, or RUN for the run's own")
    if args.random and args.greedy:
        raise UsageError("--random and --greedy exclude each other: name one")
    if args.workers < 0:
        raise UsageError(f"--workers is {args.workers}: expected at least 0")
    if args.workers > 1 and args.env.isolation == "process":
        raise UsageError(
            f"--workers {args.workers} and --env.isolation process: both start processes, name one"
        )
    if not 1 <= args.video_episodes <= max(args.episodes, 1):
        raise UsageError(f"--video-episodes is {args.video_episodes}: expected 1 to --episodes")


def _played(snapshot: Path) -> list[str]:
    """Which weights play."""
    from horizon_imagination.checkpoint import trained_for

    trained = trained_for(snapshot)
    after = f", epoch {trained['epoch']}" if "epoch" in trained else ""
    return [f"agent: {snapshot.name}{after}"]


def _at_random(protocol: "Protocol") -> list[str]:
    lines = protocol.lines()
    return ["actions: random" if line.startswith("actions:") else line for line in lines]


def _write_film(path: Path, films: list[list]) -> None:
    """The episodes one after the other, at a size that people can watch."""
    import torch
    from einops import rearrange, repeat

    from horizon_imagination.metrics.image_quality import in_colour
    from horizon_imagination.report.draw import write_video

    pause = 8
    frames = []
    for film in films:
        frames += [frames[-1]] * pause if frames else []
        for frame in film:
            seen = in_colour(torch.from_numpy(rearrange(frame, "h w c -> c h w"))).numpy()
            scale = -(-FILM_HEIGHT // seen.shape[1])
            frames.append(repeat(seen, "c h w -> (h tall) (w wide) c", tall=scale, wide=scale))
    write_video(path, frames, fps=15.0)
