"""`horizon sweep`: the runs of a suite, on this machine or on a Ray cluster, again until done."""

import dataclasses
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from horizon_imagination import schema
from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Execute a suite: finished runs are skipped, killed ones resumed, failed ones retried.

    The same command again goes on. horizon report FOLDER works at any time.
    """

    suite: Positional[str] = ""
    """A built-in suite (see --list) or a .json or .toml file; or describe one with --envs."""
    envs: tuple[str, ...] = ()
    """Without a suite: the environments."""
    preset: str = "demo"
    """Without a suite: the config of all runs."""
    settings: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME:FIELD=VALUE,...")] = ()
    """Without a suite: what is compared, such as short:imagination.budget=4"""
    seeds: int | None = None
    """How many seeds, from 0 on; a suite has its own number."""
    out: Path | None = None
    """Folder of the suite; runs/NAME if not given."""
    jobs: int = 0
    """Runs at a time; one per GPU, or one per core without any."""
    gpus: int | None = None
    """How many GPUs to use, 0 for none; all there are if not given."""
    ray: str | None = None
    """Execute on a Ray cluster: local, auto, HOST:PORT or ray://HOST:PORT."""
    threads: int = 0
    """CPU threads of a run; the cores divided by the runs at a time (on Ray: 1)."""
    retries: int = 2
    """How often a run is tried again."""
    trust: bool = False
    """Import the environments that a suite's file names as `module:Name`."""
    dry_run: bool = False
    """Print the runs, estimated hours and disk, and stop."""
    list: bool = False
    """List the built-in suites."""


def main(argv: list[str]) -> int | None:
    """Execute a suite."""
    args = parse(Arguments, argv, prog="horizon sweep")
    from horizon_imagination.scale.builtin import BUILT_IN

    if args.list:
        width = max(map(len, BUILT_IN))
        print("\n".join(f"{name:<{width}}  {text}" for name, (text, _) in BUILT_IN.items()))
        return 0
    from horizon_imagination.config import UntrustedId
    from horizon_imagination.envs.trust import check_trusted
    from horizon_imagination.run.folder import claimed
    from horizon_imagination.scale.execute import make_tasks
    from horizon_imagination.scale.suite import describe, runs_of

    for name in ("jobs", "gpus", "threads", "retries"):
        if (getattr(args, name) or 0) < 0:
            raise UsageError(f"--{name} must not be negative")
    suite = _suite(args)
    runs, folder = runs_of(suite), args.out or Path("runs") / suite.name
    if args.suite and not args.trust:
        for run in runs:
            check_trusted(replace(run.config.env, id=UntrustedId(run.env)))
    if args.dry_run:
        from horizon_imagination.scale.table import plan

        slots, _ = _slots(args, len(runs))
        device = "cpu" if args.gpus == 0 else "auto"
        print(plan(make_tasks(runs, folder), slots, _threads(args, slots), device))
        return 0
    pool = _pool(args, len(runs))
    try:
        # The folder is told apart from a suite's by its description: check before the claim.
        describe(suite, runs, folder)
        with claimed(folder):
            return _execute(args, make_tasks(runs, folder), pool, folder)
    finally:
        pool.close()


def _execute(args: Arguments, tasks: list, pool: Any, folder: Path) -> int:
    from horizon_imagination.run.signals import RESUME
    from horizon_imagination.scale.execute import execute
    from horizon_imagination.scale.table import SuiteTable

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, _interrupt)
    try:
        with SuiteTable(pool.slots) as table:
            execute(tasks, pool, retries=args.retries, watch=table)
    except KeyboardInterrupt:
        print(
            "horizon: interrupted; the same command goes on where the runs were saved",
            file=sys.stderr,
        )
        return RESUME
    failed = [task for task in tasks if task.state == "failed"]
    for task in failed:
        print(f"horizon: {task.run.name} failed: {task.reason} (see {task.log})", file=sys.stderr)
    print(f"{len(tasks) - len(failed)} of {len(tasks)} runs finished; horizon report {folder}")
    return 1 if failed else 0


def _suite(args: Arguments) -> Any:
    from horizon_imagination.scale.builtin import BUILT_IN
    from horizon_imagination.scale.suite import from_plain, read_file

    if bool(args.suite) == bool(args.envs):
        raise UsageError(
            "name a suite (horizon sweep control-demo; --list shows them), or describe one with "
            "--envs, --preset, --settings and --seeds"
        )
    if args.envs:
        return from_plain(_described(args), "the command line")
    if args.suite in BUILT_IN:
        found = BUILT_IN[args.suite][1]
    elif Path(args.suite).suffix:
        found = read_file(Path(args.suite))
    else:
        hint = did_you_mean(args.suite, BUILT_IN)
        raise UsageError(f"unknown suite '{args.suite}'; {hint} (or name a .json or .toml file)")
    if args.seeds is None:
        return found
    return dataclasses.replace(found, seeds=tuple(range(args.seeds)))


def _described(args: Arguments) -> dict[str, Any]:
    settings = [_setting(text) for text in args.settings] or [{"name": args.preset}]
    return {
        "name": args.out.name if args.out else "sweep",
        "worlds": [{"env": env, "preset": args.preset} for env in args.envs],
        "settings": settings,
        "seeds": args.seeds if args.seeds is not None else 1,
    }


def _setting(text: str) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    override = {}
    for part in filter(None, rest.split(",")):
        field, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"--settings {text}: expected NAME:FIELD=VALUE,FIELD=VALUE")
        try:
            override[field] = schema.parse(value, field)
        except UsageError:
            override[field] = None if value == "None" else value
    return {"name": name, "override": override}


def _slots(args: Arguments, runs: int) -> tuple[int, int]:
    """Runs at a time on this machine, and GPUs used."""
    import torch

    from horizon_imagination.scale.distributed import check_gpus
    from horizon_imagination.timing import cores

    check_gpus(args.gpus or 0)
    gpus = torch.cuda.device_count() if args.gpus is None else args.gpus
    return min(args.jobs or gpus or cores(), runs), gpus


def _threads(args: Arguments, slots: int) -> int:
    from horizon_imagination.timing import cores

    return args.threads or max(1, cores() // slots)


def _pool(args: Arguments, runs: int) -> Any:
    from horizon_imagination.scale.pools import LocalPool, RayPool

    if args.ray is not None:
        return RayPool(args.ray, jobs=args.jobs, gpus=args.gpus, threads=args.threads or 1)
    slots, gpus = _slots(args, runs)
    return LocalPool(slots, gpus, _threads(args, slots))


def _interrupt(number: int, frame: object) -> None:
    """A request to end is treated like Ctrl-C."""
    raise KeyboardInterrupt
