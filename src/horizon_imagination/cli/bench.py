"""`horizon bench`: the paper's runtime tables for this machine, and how its costs grow."""

import dataclasses
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from horizon_imagination.cli.parse import parse_with_preset
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError, as_usage_error, unusable

if TYPE_CHECKING:
    import torch

    from horizon_imagination.bench.document import DocumentWriter
    from horizon_imagination.bench.plan import Plan

PAPER_SCHEDULES = ((4.0, 16), (4.0, 32), (1.0, 32))
WIDTH = 150
"""Characters of tables that no terminal limits."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Time the stages of learning and how imagination's cost grows; every config field is a flag.

    On a GPU in two modes: plain (kernels launched one by one, nothing fused) and fast (every step
    and imagination captured as a CUDA graph, other --runtime switches as given).
    """

    preset: str = "paper"
    """The config (see horizon presets)."""
    schedules: tuple[str, ...] = ()
    """Decay horizon and budget of each, such as 4,16 4,32 1,32 (the default of the preset paper;
    of others, their own)."""
    batch: int | None = None
    """Batch of imagined trajectories; the preset's if not given."""
    modes: tuple[Literal["plain", "fast", "given"], ...] = ()
    """What to measure; given is the --runtime flags as they are. By default fast and plain on a
    GPU, plain elsewhere."""
    replay_frames: int = 50_000
    """Frames whose encoding is charged to an epoch."""
    repeats: int = 8
    """Repeats behind each median; slow rows are repeated at least three times."""
    growth: bool = True
    """Also measure cost against horizon, budget, decay horizon and batch."""
    quick: bool = False
    """Three repeats, three points a sweep and, if none are named, one schedule."""
    actions: int = 18
    """Number of actions."""
    out: Path | None = None
    """Folder for bench.json, bench.md and cost.png (runs/bench; with --redraw, that folder)."""
    append: Path | None = None
    """Also add the result as a line to this file."""
    redraw: Path | None = None
    """Measure nothing: make tables and figure of this folder's bench.json anew."""
    commit: str | None = None
    """The commit that is measured, where git cannot tell."""
    json: bool = False
    """End with the results in one line of JSON."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(argv: list[str]) -> int | None:
    """Measure, or redraw; --json ends with the whole document."""
    args = parse_with_preset(Arguments, argv, prog="horizon bench")
    from horizon_imagination.bench.document import FILE, DocumentWriter, read
    from horizon_imagination.files import output_folder

    if args.redraw is not None:
        document = read(args.redraw)
        if args.commit:
            document["commit"] = args.commit
        with unusable(args.redraw / FILE):
            recorder = DocumentWriter(output_folder(args.out or args.redraw), document)
            return _finish(recorder, args)
    plan, device = _plan(args)
    folder = output_folder(args.out or Path("runs/bench"))
    return _finish(_measure(args, plan, device, folder), args)


def _plan(args: Arguments) -> tuple["Plan", "torch.device"]:
    """What is measured, and on which device."""
    from horizon_imagination.bench.plan import Plan
    from horizon_imagination.device import resolve_device
    from horizon_imagination.presets import replaced

    if min(args.repeats, args.replay_frames, args.actions) < 1:
        raise UsageError("--repeats, --replay-frames and --actions must be at least 1")
    config, device = args.config, resolve_device(args.config.runtime.device)
    if args.batch is not None:
        learner = config.controller.learner
        with as_usage_error():
            learner = dataclasses.replace(learner, batch_size=args.batch)
        config = replaced(config, controller={"learner": learner})
    own = (config.imagination.decay_horizon, config.imagination.budget)
    default = PAPER_SCHEDULES if args.preset == "paper" else (own,)
    default = default[:1] if args.quick else default
    schedules = tuple(dict.fromkeys(map(parse_schedule, args.schedules))) or default
    modes = args.modes or (("fast", "plain") if device.type == "cuda" else ("plain",))
    if "fast" in modes and device.type != "cuda":
        raise UsageError(f"--modes fast needs a CUDA device, this is {device}; leave it out")
    plan = Plan(
        config=config,
        schedules=schedules,
        modes=tuple(dict.fromkeys(modes)),
        num_actions=args.actions,
        replay_frames=args.replay_frames,
        repeats=min(args.repeats, 3) if args.quick else args.repeats,
        growth=args.growth,
        quick=args.quick,
    )
    for schedule in schedules:
        with as_usage_error():
            plan.at(schedule, plan.modes[0])
    return plan, device


def parse_schedule(text: str) -> tuple[float, int]:
    """Decay horizon and budget.

    >>> parse_schedule("4,16")
    (4.0, 16)
    """
    try:
        decay, budget = text.split(",")
        return float(decay), int(budget)
    except ValueError:
        raise UsageError(
            f"--schedules '{text}': expected decay horizon and budget with a comma, such as 4,16"
        ) from None


def _measure(
    args: Arguments, plan: "Plan", device: "torch.device", folder: Path
) -> "DocumentWriter":
    import torch

    from horizon_imagination.bench.document import DocumentWriter, about
    from horizon_imagination.bench.measure import measure
    from horizon_imagination.bench.sheets import comparable
    from horizon_imagination.presets import PRESETS

    if plan.config.runtime.threads:
        torch.set_num_threads(plan.config.runtime.threads)
    config = plan.config
    document = about(device, args.commit) | {
        "preset": args.preset,
        "modes": list(plan.modes),
        "runtime": dataclasses.asdict(config.runtime),
        "batch": config.controller.learner.batch_size,
        "batches": {
            "tokenizer": config.tokenizer.learner.batch_size,
            "world_model": config.world_model.learner.batch_size,
            "segment_length": config.world_model.segment_length,
        },
        "horizon": config.imagination.horizon,
        "replay_frames": plan.replay_frames,
        "comparable": comparable(config, PRESETS["paper"][1]),
    }
    recorder = DocumentWriter(folder, document)
    measure(plan, recorder, device)
    return recorder


def _finish(recorder: "DocumentWriter", args: Arguments) -> int:
    """Tables on stdout and in bench.md, the figure if it can be drawn, JSON if it is asked for."""
    from rich.console import Console

    from horizon_imagination.bench.document import append
    from horizon_imagination.bench.sheets import sheets
    from horizon_imagination.files import write_text

    document, folder = recorder.document, recorder.folder
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    made = sheets(document)
    for sheet in made:
        console.print(sheet.rich())
        for note in sheet.notes:
            console.print(note, soft_wrap=True, highlight=False)
        console.print()
    title = f"# horizon bench: {document['preset']} on {document['machine']}"
    facts = f"{document['date']}, torch {document['torch']}, commit {document['commit']}"
    pages = [title, facts, *(sheet.markdown() for sheet in made)]
    write_text(folder / "bench.md", "\n\n".join(pages) + "\n")
    if document.get("growth", {}).get("points"):
        _draw(document, folder)
    if args.append is not None:
        append(args.append, document)
    for row in document["failed"]:
        print(f"not measured: {row['stage']} {row.get('mode', '')}: {row['error']}")
    print(f"written to {folder}")
    if args.json:
        print(json.dumps(document))
    return 1 if document["failed"] else 0


def _draw(document: dict[str, Any], folder: Path) -> None:
    from horizon_imagination.bench.sheets import draw_figure

    try:
        draw_figure(document, folder / "cost.png")
    except ImportError:
        print(
            f"no matplotlib here: draw elsewhere with horizon bench --redraw {folder}",
            file=sys.stderr,
        )
