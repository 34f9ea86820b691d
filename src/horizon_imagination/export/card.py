"""The model card: what was exported, how good it is, and the hashes of its files."""

from pathlib import Path
from typing import Any

from horizon_imagination.action_json import space_to_json
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


def names_of_actions(agent: Agent, *, trust: bool) -> tuple[str, ...]:
    """What the world calls its actions, or the entries of one; numbers where it is not here."""
    space = agent.action_space
    count = space.n if isinstance(space, Discrete) else space.shape[0]
    cfg = agent.config.env.trusted() if trust else agent.config.env
    try:
        env = make_env(cfg, 0)
    except (UsageError, ImportError):
        return tuple(map(str, range(count)))
    try:
        return action_names(env, cfg.id)
    finally:
        env.close()


def about(agent: Agent, actions: tuple[str, ...], trained: dict[str, int]) -> dict[str, Any]:
    """What a card says of any exported agent; `action_space` where actions are vectors."""
    cfg = agent.config.env
    space = space_to_json(agent.action_space).get("actions")
    return {
        "world": cfg.id,
        "actions": list(actions),
        **({"action_space": space} if space else {}),
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
        f"| actions | {', '.join(_actions(card))} |",
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


def _actions(card: dict[str, Any]) -> list[str]:
    """The names of the actions, or those of the entries of one with their bounds."""
    names, space = card["actions"], card.get("action_space")
    if space is None:
        return names
    if space["kind"] == "box":
        bounds = zip(space["low"], space["high"], strict=True)
        ranges = [f"{low:g} to {high:g}" for low, high in bounds]
    else:
        ranges = [f"0 to {n - 1}" for n in space["factors"]]
    return [f"{name} ({span})" for name, span in zip(names, ranges, strict=True)]


def _score(score: dict[str, Any]) -> str:
    low, high = score["interval"]
    return (
        f"{number(score['mean'])} (95 % of resamples: {number(low)} to {number(high)}; "
        f"{score['episodes']} episodes)"
    )
