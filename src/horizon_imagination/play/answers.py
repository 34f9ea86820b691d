"""What the page is told: the game, a strip, a stored episode, as JSON and pictures."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8

from horizon_imagination.actions import Box, Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.play import messages as m
from horizon_imagination.play.game import Game
from horizon_imagination.play.library import Excerpt, Player
from horizon_imagination.play.strip import LiveStrip, budgets, shares
from horizon_imagination.types import Schedule


class Answer(NamedTuple):
    """A message to the page, of a kind (`type`); the newest of a kind replaces older ones."""

    kind: str
    head: dict[str, Any]
    blobs: Sequence[bytes] = ()

    def packed(self) -> str | bytes:
        """As it travels."""
        return m.packed({"type": self.kind} | self.head, self.blobs)


def hello(
    agent: Agent, players: list[str], player: Player, snapshot: str, game: Game, no_env: str
) -> Answer:
    """Who plays, where, and what can be set; `no_env` says why the real world is left out."""
    cfg = agent.config
    imagination = cfg.imagination
    said = {
        "agents": players,
        "agent": player.name,
        "bundled": player.bundled,
        "snapshot": snapshot,
        "world": cfg.env.id,
        "size": cfg.env.size,
        "actions": list(game.names),
        "idle": _plain(game.idle),
        "entries": entries(game),
        "real": game.real is not None,
        "left_out": no_env and f"The real world is left out: {no_env}",
        "horizon": imagination.horizon,
        "budget": imagination.budget,
        "decay_horizon": imagination.decay_horizon,
        "budgets": budgets(imagination.horizon),
        "device": str(agent.device),
    }
    return Answer("hello", said)


def entries(game: Game) -> list[dict[str, Any]] | None:
    """The range of every number of an action, for sliders; none where actions are buttons."""
    space = game.space
    if isinstance(space, Discrete):
        return None
    if isinstance(space, Box):
        ranges = zip(space.low, space.high, strict=True)
    else:
        ranges = ((0, n - 1) for n in space.factors)
    whole = not isinstance(space, Box)
    return [{"low": low, "high": high, "whole": whole} for low, high in ranges]


def _plain(action: Any) -> Any:
    """An action as JSON has it."""
    return action.tolist() if isinstance(action, np.ndarray) else action


def _shares(game: Game) -> list[float]:
    policy = torch.tensor(game.moments[game.lead].reading.policy)
    return [round(p, 3) for p in shares(game.space, policy).tolist()]


def state(game: Game, recording: bool) -> Answer:
    """What the player has chosen."""
    return Answer("state", vars(game.choices) | {"steps": game.model.steps, "recording": recording})


def frame(game: Game, milliseconds: float, recorded: int) -> Answer:
    """The present of the worlds that are shown."""
    seen, pictures = [], []
    for world in game.worlds:
        moment = game.moments[world]
        reading = moment.reading
        said = {"reward": reading.reward, "end": reading.end, "value": reading.value}
        said |= {"total": game.totals[world]}
        said = {name: round(value, 3) for name, value in said.items()}
        received = round(moment.reward, 3) if world == "real" else None
        seen.append({"world": world, "ended": moment.ended, "received": received} | said)
        pictures.append(m.png(moment.picture))
    head = {
        "step": game.steps,
        "action": _plain(game.last_action),
        "by": game.last_by,
        "lead": game.lead,
        "policy": _shares(game),
        "worlds": seen,
        "milliseconds": round(milliseconds, 1),
        "recorded": recorded,
    }
    return Answer("frame", head, pictures)


def strips(
    wish: m.Imagine,
    schedule: Schedule,
    made: list[LiveStrip],
    context: UInt8[np.ndarray, "time height width channel"],
) -> Answer:
    """Strips one below the other; after the context each has a sheet of frames, then its policy."""
    head: dict[str, Any] = {
        "kind": wish.kind,
        "budget": len(schedule) - 1,
        "decay_horizon": wish.decay_horizon,
        "seed": wish.seed,
        "recorded": wish.place is not None,
        "schedule": [[round(tau, 4) for tau in row] for row in schedule.tolist()],
        "context": len(context),
        "num_actions": made[0].policy.shape[-1],
        "strips": [_strip(strip) for strip in made],
    }
    blobs = [m.sheet(context[None])]
    for strip in made:
        blobs += [m.sheet(strip.frames), (strip.policy * 255).round().astype(np.uint8).tobytes()]
    return Answer("strip", head, blobs)


def _strip(strip: LiveStrip) -> dict[str, Any]:
    numbers = {
        name: [round(float(x), 3) for x in getattr(strip, name)]
        for name in ("reward", "end", "value")
    }
    return numbers | {
        "sampler": strip.sampler,
        "actions": strip.told,
        "changed": strip.changed.astype(int).tolist(),
        "late": strip.late.astype(int).tolist(),
        "milliseconds": round(strip.milliseconds, 1),
        "engine": strip.engine,
    }


def look(place: m.Place, seen: Excerpt) -> Answer:
    """Frames of a stored episode, and their reconstruction."""
    numbers = {
        name: [round(x, 4) for x in getattr(seen, name)]
        for name in ("rewards", "predicted", "values", "ends")
    }
    sheets = [m.sheet(seen.frames[None]), m.sheet(seen.reconstruction[None])]
    return Answer("look", vars(place) | {"actions": seen.actions} | numbers, sheets)


def notice(text: str, *, bad: bool = False) -> Answer:
    """A line for people."""
    return Answer("notice", {"text": " ".join(text.split()), "bad": bad})
