"""Act with the exported policy: needs numpy and onnxruntime, nothing else."""

import json
from pathlib import Path

import numpy as np
import onnxruntime

EDGE = 1 - 1e-6  # the largest tanh of an action


class Policy:
    """One episode at a time; `act` takes uint8 frames of the shape that card.json names."""

    def __init__(self, folder: Path = Path(__file__).parent, file: str = "policy.onnx") -> None:
        self.session = onnxruntime.InferenceSession(str(folder / file))
        self.card = json.loads((folder / "card.json").read_text())
        self.reset(None)

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode; a seed makes its sampled actions repeatable."""
        self.dice = np.random.default_rng(seed)
        self.h = self.c = np.zeros((1, self.card["hidden"]), np.float32)

    def act(self, frame: np.ndarray, greedy: bool = False) -> int | np.ndarray:
        """The action on the next frame: a number, or a vector of what `card["actions"]` names."""
        self._check(frame)
        given = {"frames": frame[None], "h": self.h, "c": self.c}
        *policy, self.h, self.c = map(np.asarray, self.session.run(None, given))
        first, second = (numbers[0].astype(np.float64) for numbers in policy)
        space = self.card.get("action_space")
        if space is None:
            return self._number(first, greedy)
        if space["kind"] == "box":
            return self._vector(first, second, space, greedy)
        entries = np.split(first, np.cumsum(space["factors"])[:-1])
        return np.array([self._number(probs, greedy) for probs in entries])

    def _check(self, frame: np.ndarray) -> None:
        """Refuse a frame that the policy was not made for."""
        got, takes = (" x ".join(map(str, x)) for x in (np.shape(frame), self.card["frame"]))
        if got != takes:
            raise ValueError(f"got a frame of {got}, the policy takes {takes} (card.json)")
        if (kind := np.asarray(frame).dtype) != np.uint8:
            raise ValueError(f"got a frame of {kind}, the policy takes bytes (uint8, 0 to 255)")

    def _number(self, probs: np.ndarray, greedy: bool) -> int:
        """The most probable number, or one of these probabilities."""
        if greedy:
            return int(probs.argmax())
        shares = probs.cumsum()
        found = np.searchsorted(shares, self.dice.random() * shares[-1], side="right")
        return int(min(found, len(shares) - 1))

    def _vector(self, means: np.ndarray, stds: np.ndarray, space: dict, greedy: bool) -> np.ndarray:
        """The tanh of the means, or of a draw around them, between the bounds."""
        value = means if greedy else means + stds * self.dice.standard_normal(len(means))
        low, high = np.array(space["low"]), np.array(space["high"])
        share = (np.tanh(value).clip(-EDGE, EDGE) + 1) / 2
        return (low + share * (high - low)).clip(low, high).astype(np.float32)


if __name__ == "__main__":
    policy = Policy()
    action, names = policy.act(np.zeros(policy.card["frame"], np.uint8)), policy.card["actions"]
    print(names[action] if isinstance(action, int) else f"{', '.join(names)}: {action.tolist()}")
