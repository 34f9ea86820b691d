"""Snapshots: all that a run needs to go on as if it had never stopped.

Weights, optimisers, random streams and arrays are safetensors, the rest is JSON; nothing that is
loaded can execute code. A snapshot is written beside its place and renamed when it is complete.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from horizon_imagination.agent import WEIGHTS, Agent
from horizon_imagination.errors import UsageError
from horizon_imagination.learn.learner import Learner
from horizon_imagination.snapshots import BEST, CHECKPOINTS, SNAPSHOT, publish, snapshots

TRAINING, STATE, SCORE = "training.safetensors", "state.json", "score.json"


@dataclass
class Progress:
    """Counters and small values of a run, besides its networks."""

    epoch: int = 0
    """Epochs completed."""
    env_steps: int = 0
    seconds: float = 0.0
    """Wall time over all stretches of the run."""
    best_return: float | None = None
    reached: float | None = None
    """The evaluation that reached `training.target_return`, if one did."""
    failures: int = 0
    """Failures of the environment so far."""
    store: dict[str, Any] = field(default_factory=dict)
    env: Any = None
    """State of the environment, or None where it has none."""
    learner_steps: dict[str, int] = field(default_factory=dict)


def save_snapshot(
    run: Path,
    agent: Agent,
    learners: list[Learner],
    tensors: dict[str, Tensor],
    progress: Progress,
    keep: int,
) -> Path:
    """Write everything; `tensors` are random streams and other tensors of the run by name."""
    temporary = run / CHECKPOINTS / f"{SNAPSHOT}{progress.epoch:06d}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    agent.save(temporary)
    progress.learner_steps = {learner.name: learner.steps for learner in learners}
    state = dict(vars(progress))
    state["env"], arrays = split_arrays(progress.env, "env")
    everything = {f"run/{name}": value for name, value in tensors.items()} | arrays
    for learner in learners:
        everything |= _optimizer_tensors(learner)
    save_file(
        {k: v.detach().cpu().contiguous() for k, v in everything.items()}, temporary / TRAINING
    )
    (temporary / STATE).write_text(json.dumps(state, indent=1))
    return publish(temporary, keep)


def save_best(run: Path, agent: Agent, progress: Progress, score: float) -> Path:
    """Keep these weights as the run's best, with the score that made them so."""
    temporary = run / CHECKPOINTS / f"{BEST}{progress.epoch:06d}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    agent.save(temporary)
    place = {"epoch": progress.epoch, "env_steps": progress.env_steps}
    (temporary / SCORE).write_text(json.dumps(place | {"return": score}))
    return publish(temporary, 1, BEST)


def best_return(run: Path) -> float | None:
    """The score of the run's best weights, if it has any."""
    found = snapshots(run, BEST)
    return json.loads((found[-1] / SCORE).read_text())["return"] if found else None


def trained_for(snapshot: Path) -> dict[str, int]:
    """Epochs and environment steps behind a snapshot, as far as it knows them."""
    for name in (STATE, SCORE):
        if (snapshot / name).is_file():
            found = json.loads((snapshot / name).read_text())
            return {key: found[key] for key in ("epoch", "env_steps")}
    return {}


def load_snapshot(
    folder: Path, agent: Agent, learners: list[Learner]
) -> tuple[Progress, dict[str, Tensor]]:
    """Put agent and learners back where they were; returns counters and the run's tensors."""
    try:
        state = json.loads((folder / STATE).read_text())
        tensors = load_file(folder / TRAINING)
        agent.load_weights(load_file(folder / WEIGHTS))
    except UsageError:
        raise
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(f"the snapshot {folder} cannot be read: {error}") from error
    state["env"] = join_arrays(state["env"], tensors)
    progress = Progress(**state)
    for learner in learners:
        learner.steps = progress.learner_steps[learner.name]
        _restore_optimizer(learner, tensors)
    mine = {k.removeprefix("run/"): v for k, v in tensors.items() if k.startswith("run/")}
    return progress, mine


def _optimizer_tensors(learner: Learner) -> dict[str, Tensor]:
    state = learner.optimizer.state_dict()["state"]
    return {
        f"optimizer/{learner.name}/{index}/{key}": torch.as_tensor(value)
        for index, entries in state.items()
        for key, value in entries.items()
    }


def _restore_optimizer(learner: Learner, tensors: dict[str, Tensor]) -> None:
    prefix, state = f"optimizer/{learner.name}/", {}
    for name, value in tensors.items():
        if name.startswith(prefix):
            index, key = name.removeprefix(prefix).split("/")
            state.setdefault(int(index), {})[key] = value
    groups = learner.optimizer.state_dict()["param_groups"]
    learner.optimizer.load_state_dict({"state": state, "param_groups": groups})


def split_arrays(tree: Any, name: str) -> tuple[Any, dict[str, Tensor]]:
    """Nested dictionaries and lists as JSON with references, and their arrays by reference."""
    if isinstance(tree, np.ndarray):
        return {"$array": name, "dtype": str(tree.dtype)}, {name: _tensor(tree)}
    if not isinstance(tree, dict | list):
        return tree, {}
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    parts = {key: split_arrays(value, f"{name}/{key}") for key, value in entries}
    arrays = {k: v for _, found in parts.values() for k, v in found.items()}
    plain = {key: part for key, (part, _) in parts.items()}
    return (plain if isinstance(tree, dict) else list(plain.values())), arrays


def join_arrays(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `split_arrays`."""
    if isinstance(tree, list):
        return [join_arrays(value, tensors) for value in tree]
    if isinstance(tree, dict):
        if "$array" in tree:
            return tensors[tree["$array"]].numpy().view(tree["dtype"]).copy()
        return {key: join_arrays(value, tensors) for key, value in tree.items()}
    return tree


def _tensor(array: np.ndarray) -> Tensor:
    """Bytes as they are: safetensors has no name for every type of numpy."""
    signed = np.dtype(f"i{array.dtype.itemsize}")
    return torch.from_numpy(np.ascontiguousarray(array).view(signed))
