"""`horizon study imagination`: a film strip of imagination in a solved world."""

import json
from dataclasses import dataclass
from pathlib import Path

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import as_usage_error


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Imagine a falling dot with its exact velocity field, and a policy that steers it."""

    out: Path = Path("runs/studies/imagination")
    """Folder for the picture."""
    horizon: int = 8
    """Frames imagined at once."""
    budget: int = 10
    """Denoising steps."""
    decay_horizon: float = 3.0
    """Frames in flight at a time."""
    seed: int = 0
    """Seed of worlds, noise and dice."""


def main(argv: list[str]) -> int | None:
    """Imagine with stable and with naive actions; the last line of stdout is JSON."""
    args = parse(Arguments, argv, prog="horizon study imagination")
    from horizon_imagination.studies import imagination
    from horizon_imagination.studies.results import output_folder

    with as_usage_error():
        study = imagination.DotStudy(
            horizon=args.horizon,
            budget=args.budget,
            decay_horizon=args.decay_horizon,
            seed=args.seed,
        )
        outcome = {name: imagination.run(study, name) for name in ("stable", "naive")}
    folder = output_folder(args.out)
    imagination.draw(study, outcome["stable"], folder / "imagination.png")
    found = {name: imagination.summary(study, imagined) for name, imagined in outcome.items()}
    for name, numbers in found.items():
        print(f"{name:>6}: " + ", ".join(f"{key} {value:.3f}" for key, value in numbers.items()))
    print(f"picture: {folder / 'imagination.png'}")
    print(json.dumps(found))
    return 0
