"""`horizon record`: a dataset of episodes, played at random or by a trained agent."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from horizon_imagination.cli.parse import parse
from horizon_imagination.cli.train import expand
from horizon_imagination.config import EnvConfig
from horizon_imagination.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Record a dataset; --env for --env.id, which is the agent's own if an agent is named."""

    out: Path
    """Folder for the dataset; it must not exist."""
    episodes: int | None = None
    """Episodes to record."""
    steps: int | None = None
    """Steps to record, instead of episodes."""
    agent: Path | None = None
    """A run whose agent plays; at random without one."""
    greedy: bool = False
    """The agent takes the most probable action instead of sampling."""
    seed: int = 0
    """Seed of the world and of the actions."""
    device: str = "auto"
    """Where the agent's networks run."""
    env: EnvConfig = field(default_factory=EnvConfig)


def main(argv: list[str]) -> int | None:
    """Play and write."""
    argv = ["--device" if x == "--runtime.device" else x for x in expand(argv)]
    args = parse(Arguments, argv, prog="horizon record")
    from horizon_imagination.agent import Agent
    from horizon_imagination.data import info
    from horizon_imagination.run.progress import counted
    from horizon_imagination.run.record import Recording, record

    agent, env = None, args.env
    if args.agent is not None:
        agent = Agent.load(args.agent, args.device)
        default = replace(args, env=agent.config.env)
        env = parse(Arguments, argv, prog="horizon record", default=default).env
    elif not any(word.split("=")[0] == "--env.id" for word in argv):
        raise UsageError("say which world to record: --env ID, or --agent RUN for the run's own")
    what = Recording(
        env=env,
        out=args.out,
        episodes=args.episodes,
        steps=args.steps,
        seed=args.seed,
        greedy=args.greedy,
    )
    unit = "episodes" if args.episodes is not None else "steps"
    with counted(unit, args.episodes or args.steps or 0) as done:
        by_episode = args.episodes is not None
        record(what, agent, lambda ended: done(int(ended) if by_episode else 1, 1))
    figures = info(args.out)
    print(
        f"{args.out}: {figures['episodes']} episodes, {figures['steps']} steps, "
        f"mean return {figures['return_mean'] if figures['return_mean'] is not None else '-'}"
    )
    return 0
