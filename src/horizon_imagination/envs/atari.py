"""Atari 2600 games on the bare emulator, with the protocol of `config.AtariConfig`."""

from functools import lru_cache
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import UInt8

from horizon_imagination.config import AtariConfig
from horizon_imagination.envs.resize import resize
from horizon_imagination.envs.state import State, rng_state, set_rng_state
from horizon_imagination.errors import UsageError

PAPER_GAMES = {"Boxing": 18, "CrazyClimber": 9, "Gopher": 8, "KungFuMaster": 14}
"""The games of the paper and how many actions they have."""

LIFE_LOST = "life_lost"
"""In the info of a step that ended an episode, though the game goes on with the next life."""

TWO_PLAYERS_ONLY = {"combat", "joust", "maze_craze", "warlords"}

Frame = UInt8[np.ndarray, "size size 3"]
Screen = UInt8[np.ndarray, "height width 3"]


@lru_cache(maxsize=1)
def atari_games() -> dict[str, str]:
    """Every game, `KungFuMaster` -> `kung_fu_master`; empty without ale-py."""
    try:
        roms = _ale_py().roms
    except UsageError:
        return {}
    ids = [rom for rom in roms.get_all_rom_ids() if rom not in TWO_PLAYERS_ONLY]
    return {rom.title().replace("_", ""): rom for rom in sorted(ids)}


class Atari(gymnasium.Env):
    """One game, seen as `size` x `size` RGB frames.

    An action is held for `frame_skip` emulated frames, whose rewards are summed. A reset is
    followed by 1 to `max_noops` no-ops. Frames are resized with antialiasing.
    """

    def __init__(self, game: str, size: int, protocol: AtariConfig, seed: int = 0) -> None:
        _check(protocol)
        ale_py = _ale_py()
        if game not in atari_games():
            raise UsageError(f"Atari has no game {game!r}")
        self.protocol, self.size = protocol, size
        self.rom = ale_py.roms.get_rom_path(atari_games()[game])
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", protocol.sticky)
        self.ale.setInt("max_num_frames_per_episode", protocol.max_frames)
        self._seed(seed)
        full = protocol.full_actions
        self.actions = self.ale.getLegalActionSet() if full else self.ale.getMinimalActionSet()
        self.render_mode = "rgb_array"
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        self.lives = 0
        self.screen: Screen = self.ale.getScreenRGB()
        self.frame: Frame = resize(self.screen, size)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        if seed is not None:
            self._seed(seed)
        lost_a_life = self.protocol.end_on_life_loss and 0 < self.ale.lives() < self.lives
        if seed is None and lost_a_life and not self.ale.game_over():
            self._hold(0, self.protocol.frame_skip)  # the game goes on with the next life
        else:
            self.ale.reset_game()
            self.screen = self.ale.getScreenRGB()
            self._noops()
        self.lives = self.ale.lives()
        self.frame = resize(self.screen, self.size)
        return self.frame, self._info()

    def step(self, action: int | np.integer) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        if not 0 <= action < len(self.actions):
            raise UsageError(f"action {action} is unknown: expected 0 to {len(self.actions) - 1}")
        seen, reward = self._hold(int(action), self.protocol.frame_skip)
        terminated, goes_on = self.ale.game_over(with_truncation=False), False
        if self.protocol.end_on_life_loss and self.ale.lives() < self.lives:
            goes_on = not self.ale.game_over()
            terminated = True  # `lives` stays: it tells the next reset what happened
        else:
            self.lives = self.ale.lives()
        if self.protocol.sign_rewards:
            reward = float(np.sign(reward))
        self.frame = resize(seen, self.size)
        truncated = not terminated and self.ale.game_truncated()
        info = self._info() | ({LIFE_LOST: True} if goes_on else {})
        return self.frame, reward, terminated, truncated, info

    def get_action_meanings(self) -> list[str]:
        """What the actions are called, as in Gymnasium."""
        return [action.name for action in self.actions]

    def render(self) -> Frame:
        """The frame the agent sees."""
        return self.frame

    def layer_state(self) -> State:
        """The emulator with its random numbers, and what this class adds to it."""
        emulator = self.ale.cloneState(include_rng=True).__getstate__()
        return {
            "emulator": np.frombuffer(emulator, dtype=np.uint8).copy(),
            "screen": self.screen.copy(),
            "frame": self.frame.copy(),
            "lives": self.lives,
            "rng": rng_state(self.np_random),
        }

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""
        emulator = np.asarray(state["emulator"], dtype=np.uint8).tobytes()
        self.ale.restoreState(_ale_py().ALEState(emulator))
        self.screen = np.asarray(state["screen"], dtype=np.uint8).copy()
        self.frame = np.asarray(state["frame"], dtype=np.uint8).copy()
        self.lives = state["lives"]
        set_rng_state(self.np_random, state["rng"])

    def _seed(self, seed: int) -> None:
        noops, emulator = np.random.SeedSequence(seed).generate_state(2)
        self.np_random = np.random.default_rng(noops)
        self.ale.setInt("random_seed", int(emulator >> 1))  # a C int
        self.ale.loadROM(self.rom)  # the emulator reads its seed here

    def _noops(self) -> None:
        if not self.protocol.max_noops:
            return
        frames = self.protocol.frame_skip if self.protocol.noop_unit == "steps" else 1
        for _ in range(int(self.np_random.integers(1, self.protocol.max_noops + 1))):
            self._hold(0, frames)
            if self.ale.game_over():
                self.ale.reset_game()
                self.screen = self.ale.getScreenRGB()

    def _hold(self, action: int, frames: int) -> tuple[Screen, float]:
        """Emulate up to so many frames: what the agent sees of them, and the sum of rewards."""
        reward, previous = 0.0, self.screen
        needed = frames - 2 if self.protocol.max_pool else frames - 1
        for frame in range(frames):
            reward += self.ale.act(self.actions[action])
            over = self.ale.game_over()
            if over or frame >= needed:
                previous, self.screen = self.screen, self.ale.getScreenRGB()
            if over:
                break
        seen = np.maximum(previous, self.screen) if self.protocol.max_pool else self.screen
        return seen, float(reward)

    def _info(self) -> dict[str, Any]:
        return {"lives": self.ale.lives(), "episode_frames": self.ale.getEpisodeFrameNumber()}


def _ale_py() -> ModuleType:
    try:
        import ale_py
        import ale_py.roms
    except ImportError as error:
        raise UsageError(
            "Atari games need ale-py: pip install 'horizon_imagination[atari]'"
        ) from error
    return ale_py


def _check(protocol: AtariConfig) -> None:
    for name, least in (("frame_skip", 1), ("max_noops", 0), ("max_frames", 1)):
        value = getattr(protocol, name)
        if value < least:
            raise UsageError(f"env.atari.{name} is {value}: expected at least {least}")
    if not 0 <= protocol.sticky < 1:
        raise UsageError(f"env.atari.sticky is {protocol.sticky}: expected a chance in [0, 1)")
