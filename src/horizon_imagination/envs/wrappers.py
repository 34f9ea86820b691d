"""The flags every environment has: a first seed, repeated actions, a limit on time.

All of them can tell their state (`state.snapshot`).
"""

from typing import Any

import gymnasium

from horizon_imagination.envs.state import State


class FirstSeed(gymnasium.Wrapper):
    """Passes the seed of the run to the first reset that comes without one."""

    def __init__(self, env: gymnasium.Env, seed: int) -> None:
        super().__init__(env)
        self.first_seed: int | None = seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        first, self.first_seed = self.first_seed, None
        return self.env.reset(seed=first if seed is None else seed, options=options)

    def layer_state(self) -> State:
        """The seed, while it waits for its reset."""
        return {"first_seed": self.first_seed}

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""
        self.first_seed = state["first_seed"]


class RepeatAction(gymnasium.Wrapper):
    """Takes each action several times and sums the rewards, up to the end of the episode."""

    def __init__(self, env: gymnasium.Env, times: int) -> None:
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        total = float(reward)
        for _ in range(self.times - 1):
            if terminated or truncated:
                break
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
        return observation, total, terminated, truncated, info

    def layer_state(self) -> State:
        """Nothing outlives a step."""
        return {}

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""


class LimitTime(gymnasium.Wrapper):
    """Truncates an episode after so many agent steps."""

    def __init__(self, env: gymnasium.Env, steps: int) -> None:
        super().__init__(env)
        self.limit = steps
        self.elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.elapsed = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.elapsed += 1
        late = not terminated and self.elapsed >= self.limit
        return observation, float(reward), terminated, truncated or late, info

    def layer_state(self) -> State:
        """How far the episode is."""
        return {"elapsed": self.elapsed}

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""
        self.elapsed = state["elapsed"]
