"""Act with the exported policy: needs numpy and onnxruntime, nothing else."""

import json
from pathlib import Path

import numpy as np
import onnxruntime


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

    def act(self, frame: np.ndarray, greedy: bool = False) -> int:
        """The number of the action on the next frame; `card["actions"]` has its name."""
        given = {"frames": frame[None], "h": self.h, "c": self.c}
        probs, _, self.h, self.c = map(np.asarray, self.session.run(None, given))
        shares = probs[0].astype(np.float64).cumsum()
        omega = self.dice.random() * shares[-1]
        return int(probs[0].argmax() if greedy else np.searchsorted(shares, omega, side="right"))


if __name__ == "__main__":
    policy = Policy()
    print(policy.card["actions"][policy.act(np.zeros(policy.card["frame"], np.uint8))])
