"""`horizon study controller`: the controller of a run with the environment itself as its dream."""

import json
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.config import ControllerConfig
from horizon_imagination.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train a new actor and critic in trajectories that the real environment plays.

    Frames are seen through the run's tokenizer. What the controller cannot learn here it cannot
    learn in any world model; what it learns here and not in the run, the world model keeps from it.
    """

    run: Positional[Path]
    """Folder of a run, or of one of its snapshots."""
    epochs: int = 12
    """Each collects and learns as much as an epoch of the run."""
    initial: int = 4000
    """Steps of the untrained policy before the first epoch."""
    seed: int = 0
    """Seed of worlds, networks and draws."""
    out: Path = Path("runs/studies/controller")
    """Folder for the results."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best there is."""
    controller: ControllerConfig = field(default_factory=ControllerConfig)


def main(argv: list[str]) -> int | None:
    """Train, write a line per epoch and a figure; the last line of stdout is JSON."""
    prog = "horizon study controller"
    args = parse(Arguments, argv, prog=prog)
    if args.epochs < 1 or args.initial < 1:
        raise UsageError("--epochs and --initial must be at least 1")
    from horizon_imagination.agent import Agent
    from horizon_imagination.snapshots import agent_folder
    from horizon_imagination.studies.controller import played_config
    from horizon_imagination.studies.controller_report import Report
    from horizon_imagination.studies.results import output_folder

    source = Agent.load(agent_folder(args.run), args.device)
    # Parsed once more: what no flag names is as in the run.
    default = replace(args, controller=source.config.controller)
    args = parse(Arguments, argv, prog=prog, default=default)
    if args.controller.learner.steps_per_epoch < 1:
        raise UsageError(
            "the controller learns nothing with --controller.learner.steps-per-epoch 0; "
            "say how many updates an epoch has"
        )
    config = replace(played_config(source.config, args.controller), seed=args.seed)
    report = Report(output_folder(args.out), args.run)
    _train(source, config, report, args)
    print("\n".join(report.finish()))
    print(json.dumps(report.summary()))
    return 0


def _train(source, config, report, args: Arguments) -> None:
    from tempfile import TemporaryDirectory

    from horizon_imagination.run.display import clock
    from horizon_imagination.studies.controller import train

    begun = time.monotonic()
    with (
        TemporaryDirectory(prefix="horizon-controller-") as folder,
        closing(train(source, config, Path(folder), args.epochs, args.initial)) as epochs,
    ):
        for done, figures in enumerate(epochs, start=1):
            left = (time.monotonic() - begun) / done * (args.epochs - done)
            print(f"{report.add(figures)}, left about {clock(left)}", flush=True)
