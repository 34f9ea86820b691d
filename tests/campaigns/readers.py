"""Every reader of files, as a target: which file is damaged, how it is written, who reads it."""

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import horizon_imagination as hi
from horizon_imagination.agent import Agent
from horizon_imagination.bench.document import read as read_bench
from horizon_imagination.checkpoint import load_snapshot, trained_for
from horizon_imagination.config import EnvConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.data.importers import import_npz, import_videos
from horizon_imagination.data.validate import info, validate
from horizon_imagination.envs import make_env
from horizon_imagination.errors import UsageError
from horizon_imagination.export.agent_file import export_agent
from horizon_imagination.files import file_hash
from horizon_imagination.play.messages import Malformed, parse
from horizon_imagination.presets import PRESETS
from horizon_imagination.pretrained.cache import parse_converted
from horizon_imagination.run.diagnosis import diagnose
from horizon_imagination.run.folder import read_config, read_launch, rewind_metrics
from horizon_imagination.run.integrity import inspect
from horizon_imagination.run.needs import read_estimate
from horizon_imagination.run.read import (
    best_score,
    is_finished,
    read_metrics,
    saved_epochs,
    standing,
)
from horizon_imagination.run.sources import dataset_env, offline_config
from horizon_imagination.scale.suite import read_file, read_members, runs_of
from horizon_imagination.snapshots import HASHES, check_hashes
from horizon_imagination.studies.quality.records import finished

RUN = Path(__file__).parent.parent / "run" / "run_before" / "run.tar.gz"
CORPUS = Path(__file__).parent / "corpus"
DEBUG = PRESETS["debug"][1]
LATEST, BEST = "run/checkpoints/epoch-000004", "run/checkpoints/best-000003"
REFUSED = (UsageError, Malformed)
"""What a reader may raise."""


@dataclass(frozen=True)
class Target:
    """A file and who reads it."""

    file: str
    kind: str
    read: Callable[[Path], object]
    """Reads from the folder that holds all the seeds."""


def make_seeds(folder: Path) -> None:
    """Undamaged files for every target."""
    with tarfile.open(RUN) as archive:
        archive.extractall(folder, filter="data")
    shutil.copytree(CORPUS / "seeds", folder, dirs_exist_ok=True)
    shutil.copytree(folder / "run" / "replay", folder / "data")
    store = Store.open(folder / "data", "a")
    store.seal()
    store.close()
    evaluations = folder / "run" / "evaluations"
    evaluations.mkdir()
    shutil.copy(CORPUS / "seeds" / "evaluation.json", evaluations / "x.json")
    (folder / "npz").mkdir()
    _episode(folder / "npz" / "a.npz")
    (folder / "video").mkdir()
    _film(folder / "video" / "a.mp4")
    (folder / "video" / "a.csv").write_text("action,reward,terminated\n0,0,0\n1,0.5,0\n2,1,1\n")
    shutil.copytree(folder / BEST, folder / "hashed")
    hashes = {path.name: file_hash(path) for path in (folder / "hashed").iterdir()}
    (folder / "hashed" / HASHES).write_text(json.dumps(hashes))
    export_agent(Agent.load(folder / BEST, "cpu"), folder / "agent.safetensors", {"epoch": 3})


def _episode(path: Path) -> None:
    frames = np.arange(4 * 8 * 8 * 3, dtype=np.uint8).reshape(4, 8, 8, 3)
    reward = np.zeros(3, np.float32)
    np.savez(path, frames=frames, actions=np.array([0, 1, 2]), rewards=reward, done=reward > 0)


def _film(path: Path) -> None:
    import av

    with av.open(str(path), "w") as film:
        stream = film.add_stream("mpeg4", rate=5)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuv420p"
        for value in (0, 80, 160, 240):
            picture = np.full((16, 16, 3), value, np.uint8)
            film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        film.mux(stream.encode(None))


def run(folder: Path) -> None:
    """All that a report asks of a run before it draws."""
    found = hi.load_run(folder / "run")
    _ = found.epochs, found.finished, found.seconds, found.env_steps, found.changes()
    _ = found.series("env/return"), found.series("world_model/imagined_reward", "env/steps")
    _ = found.random_play(), found.stage_seconds(), found.latest("evaluation/return")


def metrics(folder: Path) -> None:
    run(folder)
    read_metrics(folder / "run", 100)
    standing(folder / "run", DEBUG)
    rewind_metrics(folder / "run", 2)


def config(folder: Path) -> None:
    """Read, and make the world, which no file may turn into code."""
    run(folder)
    make_world(read_config(folder / "run").env)


def make_world(env: EnvConfig) -> None:
    """Nobody asks for a large world here."""
    if env.size <= 512 and env.isolation != "process" and not env.id.startswith("Craftium"):
        make_env(env, 0).close()


def agent(folder: Path) -> None:
    found = Agent.load(folder / LATEST, "cpu")
    make_world(found.config.env)


def agent_file(folder: Path) -> None:
    make_world(Agent.load(folder / "agent.safetensors", "cpu").config.env)
    trained_for(folder / "agent.safetensors")


def best_agent(folder: Path) -> None:
    Agent.load(folder / "run", "cpu")


class Snapshots:
    """An agent with its learners, into which damaged snapshots are loaded again and again."""

    made: tuple | None = None

    def __call__(self, folder: Path) -> None:
        from horizon_imagination.run.callbacks import Callback
        from horizon_imagination.run.trainer import Trainer

        if Snapshots.made is None:
            trainer = Trainer(read_config(folder / "run"), folder / "run", Callback())
            trainer.close()
            Snapshots.made = trainer.agent, trainer.learners.in_order()
        load_snapshot(folder / LATEST, *Snapshots.made)
        _ = saved_epochs(folder / "run"), is_finished(folder / "run", DEBUG)
        trained_for(folder / LATEST)


def resumed(folder: Path) -> None:
    """A whole trainer goes back to the snapshot, and the store with it."""
    from horizon_imagination.run.callbacks import Callback
    from horizon_imagination.run.trainer import Trainer

    trainer = Trainer(read_config(folder / "run"), folder / "run", Callback())
    try:
        trainer.resume()
    finally:
        trainer.close()


def score(folder: Path) -> None:
    best_score(folder / "run")
    trained_for(folder / BEST)


def dataset(folder: Path) -> None:
    validate(folder / "data")
    info(folder / "data")
    make_world(dataset_env(folder / "data", DEBUG.env))
    offline_config(DEBUG, folder / "data")
    store = Store.open(folder / "data")
    import torch

    replay = Replay(store, DEBUG.replay)
    rows, mask = replay.segment_rows(2, 4, torch.Generator().manual_seed(0))
    replay.gather(rows, mask)


def imported(folder: Path, read: Callable, kind: str) -> None:
    out = folder / "imported"
    try:
        read(folder / kind, out)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def suite(folder: Path) -> None:
    read_members(folder / "suite")


def suite_file(folder: Path, name: str) -> None:
    for planned in runs_of(read_file(folder / "suite" / name)):
        make_world(planned.config.env)


def weights(folder: Path) -> None:
    parse_converted("vgg16", (folder / "vgg16.safetensors").read_bytes(), "x")


def message(folder: Path) -> None:
    text = (folder / "message.json").read_bytes().decode("utf-8", "replace")
    parse(text)


def bench(folder: Path) -> None:
    read_bench(folder / "bench")


def estimate(folder: Path) -> None:
    """What was estimated, against what the metrics say."""
    diagnose(hi.load_run(folder / "run"), read_estimate(folder / "run").epoch_seconds)


def doctor(folder: Path) -> None:
    """All that `horizon doctor` looks at."""
    found, kept = hi.load_run(folder / "run"), read_estimate(folder / "run")
    for finding in inspect(found, kept.disk_bytes) + diagnose(found, kept.epoch_seconds):
        finding.line()


TARGETS = {
    "config": Target("run/config.json", "json", config),
    "launch": Target("run/run.json", "json", lambda f: (read_launch(f / "run"), run(f))),
    "metrics": Target("run/metrics.jsonl", "lines", metrics),
    "sessions": Target("run/sessions.jsonl", "lines", run),
    "evaluation": Target("run/evaluations/x.json", "json", run),
    "state": Target(f"{LATEST}/state.json", "json", Snapshots()),
    "resume": Target(f"{LATEST}/state.json", "json", resumed),
    "training": Target(f"{LATEST}/training.safetensors", "tensors", Snapshots()),
    "weights": Target(f"{LATEST}/weights.safetensors", "tensors", Snapshots()),
    "agent": Target(f"{LATEST}/agent.json", "json", agent),
    "best": Target(f"{BEST}/weights.safetensors", "tensors", best_agent),
    "agent_file": Target("agent.safetensors", "tensors", agent_file),
    "score": Target(f"{BEST}/score.json", "json", score),
    "dataset": Target("data/dataset.json", "json", dataset),
    "marks": Target("data/marks.u8", "bytes", dataset),
    "actions": Target("data/action.i32", "bytes", dataset),
    "rewards": Target("data/reward.f32", "bytes", dataset),
    "ends": Target("data/terminated.u8", "bytes", dataset),
    "frames": Target("data/frames.u8", "bytes", dataset),
    "npz": Target("npz/a.npz", "archive", lambda f: imported(f, import_npz, "npz")),
    "film": Target("video/a.mp4", "bytes", lambda f: imported(f, import_videos, "video")),
    "table": Target("video/a.csv", "lines", lambda f: imported(f, import_videos, "video")),
    "suite": Target("suite/suite.json", "json", suite),
    "suite_json": Target("suite/own.json", "json", lambda f: suite_file(f, "own.json")),
    "suite_toml": Target("suite/own.toml", "lines", lambda f: suite_file(f, "own.toml")),
    "bench": Target("bench/bench.json", "json", bench),
    "pretrained": Target("vgg16.safetensors", "tensors", weights),
    "message": Target("message.json", "json", message),
    "hashes": Target(f"hashed/{HASHES}", "json", lambda f: check_hashes(f / "hashed")),
    "estimate": Target("run/estimate.json", "json", estimate),
    "doctor": Target("run/metrics.jsonl", "lines", doctor),
    "points": Target("study/points.jsonl", "lines", lambda f: finished(f / "study", "a1")),
}
GUIDED = (
    *("config", "launch", "metrics", "sessions", "evaluation", "score", "dataset", "npz", "table"),
    *("suite", "suite_json", "suite_toml", "bench", "message", "hashes", "estimate", "points"),
)
"""Readers in plain Python, which can be traced line by line."""
HEAVY = ("resume", "agent", "agent_file", "best", "doctor", "state", "training", "weights", "film")
"""Readers that build networks, or call a decoder: they take turns less often."""


def plain(folder: Path) -> None:
    """Read every seed as it is; whatever is raised here is the campaign's own fault."""
    for name, target in TARGETS.items():
        try:
            target.read(folder)
        except UsageError:
            if name not in ("pretrained",):  # a stand-in with too few tensors
                raise
