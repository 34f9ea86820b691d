"""`horizon envs`: the worlds that are known by name, and a trial of any other."""

from dataclasses import dataclass, field, replace
from typing import Any

from horizon_imagination.cli.parse import parse
from horizon_imagination.config import EnvConfig
from horizon_imagination.wording import number


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """List worlds with their number of actions, random and best returns; or try one.

    With --check, fifty steps are played at random in the world that is named.
    """

    all_games: bool = False
    """List every Atari game that is installed."""
    check: str | None = None
    """Try this world: whether it keeps Gymnasium's contract, what is seen of it, how fast it is."""
    env: EnvConfig = field(default_factory=EnvConfig)


def main(argv: list[str]) -> int | None:
    """One line per world."""
    args = parse(Arguments, argv, prog="horizon envs")
    if args.check is not None:
        return _check(replace(args.env, id=args.check))
    from horizon_imagination.envs import atari_games, env_names

    print(f"{'world':<24} actions  random    best  what")
    for env in env_names():
        line = f"{env.name:<24} {_short(env.action_space):>7} {number(env.random_return):>7}"
        print(f"{line} {number(env.best_return):>7}  {env.summary}")
    games = atari_games()
    if args.all_games:
        print("\n".join(f"ALE/{game}-v5" for game in games))
    elif games:
        print(f"and {len(games)} Atari games, ALE/NAME-v5 (--all-games lists them)")
    else:
        print("Atari games need ale-py: pip install 'horizon_imagination[atari]'")
    print(
        "and any Gymnasium id or module:Name with Discrete, MultiDiscrete or Box actions "
        "(docs/environments.md)"
    )
    return 0


def _short(space: Any) -> str:
    """How many actions there are, or of how many numbers one is."""
    return str(space.n) if hasattr(space, "n") else f"vec {space.shape[0]}"


def _check(cfg: EnvConfig) -> int:
    from horizon_imagination.envs.trial import as_text, try_env

    trial = try_env(cfg)
    low, high = trial.rewards
    print(as_text(trial.frame))
    print(f"{cfg.id} keeps its contract over {trial.steps} random steps")
    print(f"the agent sees {trial.reading}")
    print(
        f"{trial.action_space.words()}, rewards {number(low)} to {number(high)}, "
        f"{trial.episodes} episodes ended, {trial.steps / trial.seconds:.0f} steps a second"
    )
    on = "goes on in the middle of an episode" if trial.restorable else "begins a new episode"
    print(f"a resumed run {on}")
    return 0
