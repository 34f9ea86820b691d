"""`horizon evaluate RUN`: play episodes with a stated protocol and say how good the agent is."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import tyro

from horizon_imagination.cli.parse import parse
from horizon_imagination.cli.train import expand
from horizon_imagination.config import EnvConfig


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Evaluate the agent of a run (its best snapshot, else its latest) and store every episode."""

    run: tyro.conf.Positional[Path]
    """Folder of a run, or of one of its snapshots."""
    episodes: int = 100
    """Episodes to play."""
    seed: int = 0
    """Seed of episodes and actions."""
    greedy: bool = False
    """Take the most probable action instead of sampling."""
    envs: int = 16
    """Episodes played at once."""
    video: Path | None = None
    """Also write the first episode as a film."""
    device: str = "auto"
    """Where the networks run."""
    env: EnvConfig = field(default_factory=EnvConfig)


def main(argv: list[str]) -> int | None:
    """Play, write evaluations/….json into the run, and print it."""
    argv = ["--device" if x == "--runtime.device" else x for x in expand(argv)]
    args = parse(Arguments, argv, prog="horizon evaluate")
    from horizon_imagination.agent import Agent
    from horizon_imagination.evaluate import Protocol, evaluate
    from horizon_imagination.run.evaluation import check_fits, told, write_evaluation
    from horizon_imagination.run.progress import counted
    from horizon_imagination.snapshots import agent_folder

    snapshot = agent_folder(args.run)
    agent = Agent.load(snapshot, args.device)
    # Parsed once more: what no flag names is as in training.
    default = replace(args, env=agent.config.env)
    env = parse(Arguments, argv, prog="horizon evaluate", default=default).env
    protocol = Protocol(env, args.episodes, args.seed, args.greedy, args.envs)
    check_fits(agent, protocol)
    print("\n".join(protocol.lines()))
    film = [] if args.video is not None else None
    with counted("episodes", args.episodes) as on_steps:
        played = evaluate(agent, protocol, frames_of_first=film, on_steps=on_steps)
    path, content = write_evaluation(args.run, snapshot, protocol, played, str(agent.device))
    print("\n".join(told(content)))
    print(f"every episode: {path}")
    if film is not None and args.video is not None:
        from horizon_imagination.report.video import write_video

        write_video(args.video, film, fps=15.0)
        print(f"film of the first one: {args.video}")
    return 0
