"""Own videos and tables of actions become a dataset, and the dataset an agent."""

import csv
import json

import numpy as np

from horizon_imagination.cli import main
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env


def film(folder, name, seed):
    """One episode of catch as a video and a table."""
    import av

    env, rng = make_env(EnvConfig(id="catch"), seed), np.random.default_rng(seed)
    frames, rows, ended = [env.reset()[0]], [], False
    while not ended:
        action = int(rng.integers(3))
        frame, reward, ended, _, _ = env.step(action)
        frames.append(frame)
        rows.append([action, reward, int(ended)])
    with av.open(str(folder / f"{name}.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    with (folder / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["action", "reward", "terminated"], *rows])


def test_a_folder_of_videos_is_imported_checked_and_trained_on(tmp_path, capsys):
    videos, data, run = tmp_path / "videos", tmp_path / "data", tmp_path / "run"
    videos.mkdir()
    for seed in range(6):
        film(videos, f"episode{seed}", seed)
    options = ["--size", "32", "--num-actions", "3", "--env-id", "catch"]
    assert main(["data", "import", str(videos), str(data), *options]) == 0
    assert main(["data", "validate", str(data)]) == 0
    capsys.readouterr()
    assert main(["data", "info", str(data), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["steps"] == 42 and told["episodes"] == 6
    assert main(["train", "--preset", "debug", "--offline", str(data), "--out", str(run)]) == 0
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seen = {key.split("/")[0] for line in lines for key in line}
    assert {"tokenizer", "world_model", "controller"} <= seen
    assert np.isfinite([v for line in lines for v in line.values()]).all()
