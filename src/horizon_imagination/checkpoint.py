"""Snapshots: all that a run needs to go on as if it had never stopped.

Weights, optimisers, random streams and arrays are safetensors, the rest is JSON; nothing that is
loaded can execute code. A snapshot is written beside its place and renamed when it is complete.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.errors import UsageError, unusable
from horizon_imagination.files import empty_place, write_json
from horizon_imagination.learn.learner import Learner
from horizon_imagination.snapshots import (
    BEST,
    CHECKPOINTS,
    SCORE,
    SNAPSHOT,
    STATE,
    WEIGHTS,
    Progress,
    check_hashes,
    publish,
    read_agent_file,
    read_score,
    read_state,
)
from horizon_imagination.tensor_files import check_finite, read_tensors

TRAINING = "training.safetensors"


def save_snapshot(
    run: Path,
    agent: Agent,
    learners: list[Learner],
    tensors: dict[str, Tensor],
    progress: Progress,
    keep: int,
    hours: float = 0.0,
) -> Path:
    """Write everything; `tensors` are random streams and other tensors of the run by name."""
    temporary = run / CHECKPOINTS / f"{SNAPSHOT}{progress.epoch:06d}.tmp"
    empty_place(temporary)
    agent.save(temporary)
    progress.learner_steps = {learner.name: learner.steps for learner in learners}
    state = dict(vars(progress))
    state["unfinished"] = asdict(progress.unfinished) if progress.unfinished else None
    state["env"], arrays = split_arrays(progress.env, "env")
    everything = {f"run/{name}": value for name, value in tensors.items()} | arrays
    for learner in learners:
        everything |= _optimizer_tensors(learner)
    save_file(
        {k: v.detach().cpu().contiguous() for k, v in everything.items()}, temporary / TRAINING
    )
    write_json(temporary / STATE, state)
    return publish(temporary, keep, hours=hours)


def save_best(run: Path, agent: Agent, epoch: int, env_steps: int, score: float) -> Path:
    """Keep these weights as the run's best, with the score that made them so, after `epoch`s."""
    temporary = run / CHECKPOINTS / f"{BEST}{epoch:06d}.tmp"
    empty_place(temporary)
    agent.save(temporary)
    write_json(temporary / SCORE, {"epoch": epoch, "env_steps": env_steps, "return": score})
    return publish(temporary, 1, BEST)


def trained_for(snapshot: Path) -> dict[str, int]:
    """Epochs and environment steps behind a snapshot or a file, as far as it knows them."""
    if snapshot.is_file():
        return read_agent_file(snapshot).trained
    for name, read in ((STATE, read_state), (SCORE, read_score)):
        if (snapshot / name).exists():
            found = read(snapshot)
            return {"epoch": found.epoch, "env_steps": found.env_steps}
    return {}


def load_latest(found: Sequence[Path], load: Callable[[Path], None]) -> tuple[list[Path], str]:
    """Load the latest snapshot that is whole; those that are not, and what to say of them."""
    damaged: list[Path] = []
    problem: UsageError | None = None
    for folder in reversed(found):
        try:
            with unusable(f"the snapshot {folder}"):
                load(folder)
        except UsageError as error:
            problem = problem or error
            damaged.append(folder)
            continue
        return damaged, f"{problem}; going on from {folder.name}" if problem else ""
    assert problem is not None
    raise problem


def load_snapshot(
    folder: Path, agent: Agent, learners: list[Learner]
) -> tuple[Progress, dict[str, Tensor]]:
    """Put agent and learners back where they were; returns counters and the run's tensors."""
    check_hashes(folder)
    progress, tensors = read_state(folder), read_tensors(folder / TRAINING)
    agent.load_weights(read_tensors(folder / WEIGHTS), folder / WEIGHTS)
    try:
        progress.env = join_arrays(progress.env, tensors)
        for learner in learners:
            learner.steps = progress.learner_steps[learner.name]
            _restore_optimizer(learner, tensors)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"the snapshot {folder} is damaged: {error}") from error
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
    parameters = [p for group in learner.optimizer.param_groups for p in group["params"]]
    for name, value in tensors.items():
        if name.startswith(prefix):
            index, key = name.removeprefix(prefix).split("/")
            parameter = parameters[int(index)]
            if value.ndim and value.shape != parameter.shape:
                raise ValueError(f"{name} has the shape {tuple(value.shape)}")
            if value.ndim:  # laid out in memory as the weight is, which fused optimisers demand
                value = torch.empty_like(parameter, device=value.device).copy_(value)
            state.setdefault(int(index), {})[key] = value
    check_finite({k: v for k, v in tensors.items() if k.startswith(prefix)}, Path(TRAINING))
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
