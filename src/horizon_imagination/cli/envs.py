"""`horizon envs`: the worlds that are known by name."""

from dataclasses import dataclass

from horizon_imagination.cli.parse import parse


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """List worlds with their number of actions, random and best returns."""

    all_games: bool = False
    """List every Atari game that is installed."""


def main(argv: list[str]) -> int | None:
    """One line per world."""
    args = parse(Arguments, argv, prog="horizon envs")
    from horizon_imagination.envs import atari_games, env_names

    print(f"{'world':<24} actions  random    best  what")
    for env in env_names():
        line = f"{env.name:<24} {env.num_actions:>7} {_number(env.random_return):>7}"
        print(f"{line} {_number(env.best_return):>7}  {env.summary}")
    games = atari_games()
    if args.all_games:
        print("\n".join(f"ALE/{game}-v5" for game in games))
    elif games:
        print(f"and {len(games)} Atari games, ALE/NAME-v5 (--all-games lists them)")
    else:
        print("Atari games need ale-py: pip install 'horizon_imagination[atari]'")
    print("and any Gymnasium id or module:Name with discrete actions (docs/environments.md)")
    return 0


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
