"""What the agent sees: 8-bit frames of one size, whatever the environment shows."""

from typing import Any

import gymnasium
import numpy as np

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.state import State
from horizon_imagination.envs.view import Frame, View, read_space
from horizon_imagination.errors import EnvFailure, UsageError


class ToFrames(gymnasium.Wrapper):
    """Turns the image among the observations, or the render, into `size` x `size` uint8 frames."""

    def __init__(self, env: gymnasium.Env, cfg: EnvConfig) -> None:
        super().__init__(env)
        self.name = cfg.id
        self.view: View = read_space(env.observation_space, cfg)
        shape = self.view.frame_shape
        if cfg.channels == "stack" and cfg.stack_channels not in (0, shape[2]):
            raise UsageError(
                f"env.stack_channels is {cfg.stack_channels}, but {cfg.id} shows {shape[2]}: it is "
                "another world than the one the run began in"
            )
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.frame(observation), info

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.frame(observation), float(reward), bool(terminated), bool(truncated), info

    def frame(self, observation: Any) -> Frame:
        """The frame that shows this observation."""
        if self.view.pixels:
            observation = self.env.render()
            if not isinstance(observation, np.ndarray):
                raise UsageError(
                    f"env.pixels: {type(self.env.unwrapped).__name__}.render() gave no image: the "
                    "environment must support render_mode rgb_array"
                )
            if not self.view.shape:  # known only now that it is drawn
                self.view = self.view.drawn(observation)
        try:
            return self.view.frame(observation)
        except UsageError:
            raise
        except ValueError as error:
            raise EnvFailure(f"{self.name}: {error}") from error

    def layer_state(self) -> State:
        """Frames are a function of the present."""
        return {}

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""


def view_of(env: gymnasium.Env) -> View | None:
    """How the observations of an environment are read; none where it draws the frames itself."""
    while True:
        view = vars(env).get("view")
        if isinstance(view, View):
            return view
        if not isinstance(env, gymnasium.Wrapper):
            return None
        env = env.env
