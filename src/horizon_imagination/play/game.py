"""The game: one episode in one world or both, from the same start and under the same actions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium
import numpy as np
import torch

from horizon_imagination.actions import ActionSpace, Box, MultiDiscrete
from horizon_imagination.envs.spaces import single, to_world
from horizon_imagination.play.worlds import (
    ModelWorld,
    Moment,
    Picture,
    PlayedAgent,
    RealWorld,
    Track,
)

World = Literal["model", "real"]
Shown = Literal["model", "real", "both"]
By = Literal["person", "policy"]
IDLE = ("noop", "nop", "stay", "still", "idle", "none", "wait")
"""Names of actions that do nothing."""

OnMoment = Callable[[World, Moment, Any, By], None]
"""Told of every frame that is shown, and of the action that led to it (none began the episode)."""


@dataclass(frozen=True)
class Choices:
    """What a player has set."""

    world: Shown = "model"
    player: By = "person"
    speed: float = 8.0
    """Steps a second, while the world runs."""
    running: bool = False


class Game:
    """The worlds of an agent, and what a player has chosen of them."""

    def __init__(
        self, networks: PlayedAgent, env: gymnasium.Env | None, names: tuple[str, ...], seed: int
    ) -> None:
        self.networks, self.names = networks, names
        self.real = RealWorld(env, networks) if env is not None else None
        self.model = ModelWorld(networks, seed)
        self.choices = Choices(world="model")
        self.space = networks.agent.action_space
        self.idle = idle_action(self.space, names)
        self.dice = torch.Generator().manual_seed(seed)
        self.follows = False
        """Whether the real world has followed the same actions from the same start."""
        self.moments: dict[World, Moment] = {}
        self.totals: dict[World, float] = {}
        self.steps, self.last_by = 0, "person"
        self.last_action: Any = -1
        self.on_moment: OnMoment = lambda world, moment, action, by: None

    @property
    def worlds(self) -> tuple[World, ...]:
        """The worlds that are shown."""
        both: tuple[World, ...] = ("model", "real")
        return both if self.choices.world == "both" else (self.choices.world,)

    @property
    def ended(self) -> bool:
        """Whether the episode is over wherever it is shown."""
        return all(self.moments[world].ended for world in self.worlds)

    @property
    def lead(self) -> World:
        """The world whose frames the policy acts on."""
        going: list[World] = [world for world in self.worlds if not self.moments[world].ended]
        return going[0] if going else self.worlds[0]

    @property
    def track(self) -> Track:
        """The episode as the leading world has it."""
        return self.real.track if self.lead == "real" and self.real else self.model.track

    def reset(self) -> None:
        """Begin an episode where the real world begins one."""
        assert self.real is not None
        self.real.reset()
        start = self.real.look()
        self.model.begin(self.real.track)
        self._begin(start, follows=True)

    def reset_from(self, track: Track, picture: Picture) -> None:
        """Begin in the world model, after what was recorded; the real world cannot follow."""
        self.choices = replace(self.choices, world="model")
        self.model.begin(track)
        self._begin(Moment(picture, track.reading, 0.0, False, False), follows=False)

    def show(self, world: Shown) -> None:
        """Switch worlds: the model goes on from the real frame, the real world has followed."""
        before = self.choices.world
        if world == before:
            return
        self.choices = replace(self.choices, world=world)
        if self.real is None or not self.follows:
            self.reset()
            return
        if before == "real":
            if self.real.ended:
                self.reset()
                return
            self.model.begin(self.real.track)
            self.moments["model"] = self.moments["real"]
            self.totals["model"] = self.totals["real"]
            self.on_moment("model", self.moments["model"], None, self.choices.player)
        if before == "model":
            self.moments["real"] = self.real.look()
            self.on_moment("real", self.moments["real"], None, self.choices.player)

    def step(self, action: Any = None) -> bool:
        """Take an action, or the policy's, or none; False if the episode is over."""
        if self.ended:
            return False
        by: By = "person" if action is not None else self.choices.player
        if action is None:
            action = self._policy() if by == "policy" else self.idle
        if isinstance(action, tuple):
            action = np.asarray(action, np.float32 if isinstance(self.space, Box) else np.int64)
        shown = self.worlds
        if "model" in shown and not self.moments["model"].ended:
            self._after("model", self.model.step(action), action, by)
        if self.real is not None and self.follows and not self.real.ended:
            self.real.step(action, seen="real" in shown)
            if "real" in shown:
                self._after("real", self.real.look(), action, by)
            else:
                self.totals["real"] += self.real.last[0]
        self.steps, self.last_action, self.last_by = self.steps + 1, action, by
        return True

    def _begin(self, start: Moment, follows: bool) -> None:
        self.follows, self.steps, self.last_action = follows, 0, -1
        self.moments = {"model": start, "real": start}
        self.totals = {"model": 0.0, "real": 0.0}
        for world in self.worlds:
            self.on_moment(world, start, None, self.choices.player)

    def _after(self, world: World, moment: Moment, action: Any, by: By) -> None:
        self.moments[world] = moment
        self.totals[world] += moment.reward
        self.on_moment(world, moment, action, by)

    def _policy(self) -> Any:
        policy = torch.tensor([self.moments[self.lead].reading.policy])
        return single(to_world(self.space, self.space.sample(policy, self.dice)))


def idle_action(space: ActionSpace, names: tuple[str, ...]) -> Any:
    """What is done when nobody acts: an action of such a name, else the first; of vectors 0, or
    what is nearest to it."""
    if isinstance(space, Box):
        return np.clip(np.zeros(space.shape, np.float32), space.low, space.high)
    if isinstance(space, MultiDiscrete):
        return np.zeros(space.shape, np.int64)
    return next((i for i, name in enumerate(names) if name.lower() in IDLE), 0)
