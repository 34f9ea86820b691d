"""The model card: what was exported, how good it is, and the hashes of its files."""

from pathlib import Path
from typing import Any

from horizon_imagination.actions import Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.envs import make_env
from horizon_imagination.envs.action_names import action_names
from horizon_imagination.envs.known import reference_scores
from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_json, write_text
from horizon_imagination.pretrained.archive import file_sha256
from horizon_imagination.provenance import provenance, told
from horizon_imagination.wording import number, size

CARD = "card.json"


def check_discrete(agent: Agent) -> None:
    """Refuse an agent whose actions are no numbers."""
    space = agent.action_space
    if not isinstance(space, Discrete):
        raise UsageError(
            f"{agent.config.env.id} has {space.words()}: export takes agents with discrete actions"
        )


def names_of_actions(agent: Agent, *, trust: bool) -> tuple[str, ...]:
    """What the world calls its actions; their numbers where it cannot be built here."""
    cfg = agent.config.env.trusted() if trust else agent.config.env
    try:
        env = make_env(cfg, 0)
    except (UsageError, ImportError):
        return tuple(map(str, range(agent.num_actions)))
    try:
        return action_names(env, cfg.id)
    finally:
        env.close()


def about(agent: Agent, actions: tuple[str, ...], trained: dict[str, int]) -> dict[str, Any]:
    """What a card says of any exported agent."""
    cfg = agent.config.env
    return {
        "world": cfg.id,
        "actions": list(actions),
        "frame": [cfg.size, cfg.size, cfg.frame_channels],
        "view": None if agent.view is None else agent.view.line(),
        "trained": trained,
        "reference_scores": reference_scores(cfg.id),
        "made": provenance(),
    }


def files_of(folder: Path, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Size and hash of files."""
    return {
        name: {"bytes": (folder / name).stat().st_size, "sha256": file_sha256(folder / name)}
        for name in names
    }


def write_card(folder: Path, card: dict[str, Any], title: str, usage: str) -> None:
    """Write the card as JSON, and for people."""
    write_json(folder / CARD, card)
    write_text(folder / "README.md", "\n".join(_page(card, title, usage)) + "\n")


def _page(card: dict[str, Any], title: str, usage: str) -> list[str]:
    lines = [f"# {title}", "", usage, "", "| | |", "|---|---|"]
    lines += [
        f"| world | `{card['world']}` |",
        f"| actions | {', '.join(card['actions'])} |",
        f"| frame | {' x '.join(map(str, card['frame']))}, uint8 |",
    ]
    if card["view"]:
        lines.append(f"| the frame shows | {card['view']} |")
    if card["trained"]:
        trained = card["trained"]
        lines.append(f"| trained | {trained['env_steps']:,} steps, {trained['epoch']} epochs |")
    lines += [f"| {name} return | {_score(score)} |" for name, score in card["scores"].items()]
    lines += [f"| {name} play | {number(x)} |" for name, x in card["reference_scores"].items()]
    lines += [f"| {key} | {text} |" for key, text in card["notes"].items()]
    lines += [
        f"| made by | {told(card['made'])} |",
        "",
        "| file | size | sha256 |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {size(file['bytes'])} | `{file['sha256']}` |"
        for name, file in card["files"].items()
    ]
    if card["protocol"]:
        lines += ["", "How the returns were measured:", ""]
        lines += [f"- {line}" for line in card["protocol"]]
    return lines


def _score(score: dict[str, Any]) -> str:
    low, high = score["interval"]
    return (
        f"{number(score['mean'])} (95 % of resamples: {number(low)} to {number(high)}; "
        f"{score['episodes']} episodes)"
    )
