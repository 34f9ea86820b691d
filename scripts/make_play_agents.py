"""Make the agents that come with the package: train presets, keep weights in half precision.

python scripts/make_play_agents.py                        # trains both: about half an hour on a CPU
python scripts/make_play_agents.py --catch RUN --fog RUN  # from runs of `demo` and `fog` you have

Each becomes a folder of `src/horizon_imagination/play/agents`: config and metrics as in a run, and
the best snapshot. Imagination uses the averaged denoiser, so that one alone is kept.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from safetensors.torch import save_file

from horizon_imagination.agent import Agent
from horizon_imagination.export.agent_file import slimmed
from horizon_imagination.files import write_json, write_jsonl
from horizon_imagination.play.library import FOLDER
from horizon_imagination.schema import read_lines
from horizon_imagination.snapshots import DESCRIPTION, WEIGHTS

PRESETS = {"catch": "demo", "fog": "fog"}
CURVES = ("epoch", "env/steps", "env/return", "evaluation/return", "time/seconds",
          "controller/imagined_return", "controller/late_changes", "controller/entropy",
          "tokenizer/reconstruction", "world_model/denoiser", "world_model/reward")  # fmt: skip
"""What the page draws of a training."""


def pack(run: Path, folder: Path) -> int:
    """Write a small agent from a run's best snapshot; its size in bytes."""
    about, weights = slimmed(Agent.load(run, "cpu"))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)
    write_json(folder / DESCRIPTION, about)
    write_json(folder / "config.json", about["config"])
    metrics = read_lines(run / "metrics.jsonl", dict)
    write_jsonl(
        folder / "metrics.jsonl", ({k: _short(m[k]) for k in CURVES if k in m} for m in metrics)
    )
    return sum(file.stat().st_size for file in folder.iterdir())


def _short(value: float) -> float:
    """Four digits of a measurement; counts as they are."""
    return value if isinstance(value, int) else float(f"{value:.4g}")


def main() -> None:
    """Train what no run was given for, then pack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in PRESETS:
        parser.add_argument(f"--{name}", type=Path, help=f"a finished run of {PRESETS[name]}")
    given = vars(parser.parse_args())
    for name, preset in PRESETS.items():
        run = given[name]
        if run is None:
            run = Path("runs") / "play" / name
            command = [sys.executable, "-m", "horizon_imagination", "train"]
            subprocess.run([*command, "--preset", preset, "--out", str(run)], check=True)
        size = pack(run, FOLDER / name)
        print(json.dumps({"agent": name, "run": str(run), "megabytes": round(size / 1e6, 2)}))


if __name__ == "__main__":
    main()
