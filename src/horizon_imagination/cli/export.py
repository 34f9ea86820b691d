"""`horizon export RUN`: a policy, a dream in a page, or the agent in one file."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import given, parse
from horizon_imagination.cli.place import place_of
from horizon_imagination.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Export the policy of a run as ONNX and for torch.export, with a model card and a runner.

    The runner needs numpy and onnxruntime alone. With --web, export the world model instead, as one
    page that runs it in the visitor's browser. With --agent, write the whole agent as one file that
    every command here reads.
    """

    run: Positional[Path]
    """A run, one of its snapshots, or an agent's file; catch or fog for agents of the package."""
    out: Path | None = None
    """Folder to write, with --agent a file; by default a place in the run's folder export."""
    web: bool = False
    """Write a page with the world model instead of a policy."""
    agent: bool = False
    """Write one file with the whole agent, in half precision, to hand around."""
    webgpu: bool = True
    """With --web: the page can also run on WebGPU; without, it is 5.6 MB smaller."""
    starts: int = 16
    """With --web: first frames of the real world from which the page begins its episodes."""
    episodes: int = 32
    """Episodes that agent, ONNX file and int8 file play; 0 measures nothing and leaves out int8."""
    seed: int = 0
    """Seed of episodes and starts."""
    trust: bool = False
    """Import the environment that the run's own files name as `module:Name`."""


def main(argv: list[str]) -> int | None:
    """Load, export, print where the files are."""
    args = parse(Arguments, argv, prog="horizon export")
    if args.episodes < 0:
        raise UsageError(f"--episodes is {args.episodes}: expected 0 or more")
    if args.starts < 1:
        raise UsageError(f"--starts is {args.starts}: expected 1 or more")
    _check_forms(args, argv)
    from horizon_imagination.agent import Agent
    from horizon_imagination.checkpoint import trained_for
    from horizon_imagination.export.onnx_file import check_installed
    from horizon_imagination.export.policy import export_policy
    from horizon_imagination.export.web import PAGE, export_web
    from horizon_imagination.files import output_file
    from horizon_imagination.wording import size

    if not args.agent:
        check_installed()
    place = place_of(args.run)
    folder, exports = place.agent, place.results / "export"
    if args.agent:
        path = args.out or exports / f"{place.results.resolve().name}.safetensors"
        return _write_file(folder, output_file(path, "--out"))
    out = args.out or exports / ("web" if args.web else "policy")
    agent, trained = Agent.load(folder, "cpu"), trained_for(folder)
    common = {"seed": args.seed, "trained": trained, "trust": args.trust, "say": print}
    if args.web:
        card = export_web(agent, out, starts=args.starts, webgpu=args.webgpu, **common)
    else:
        card = export_policy(agent, out, episodes=args.episodes, **common)
    for name, file in card["files"].items():
        print(f"{out / name}: {size(file['bytes'])}")
    if args.web:
        print(f"open {out / PAGE} in a browser: it is complete and needs no server")
    else:
        print(f"the card: {out / 'card.json'}; act with {out / 'run_policy.py'}")
    return 0


def _check_forms(args: Arguments, argv: list[str]) -> None:
    """Refuse flags of a form of export that is not asked for."""
    if args.web and args.agent:
        raise UsageError("--web and --agent exclude each other: name one")
    if not args.web and (flag := given(argv, "--webgpu", "--no-webgpu", "--starts")):
        raise UsageError(f"{flag} is about the page: add --web, or leave it out")
    if (args.web or args.agent) and (flag := given(argv, "--episodes")):
        form = "--web" if args.web else "--agent"
        raise UsageError(f"{flag} is about the policy: leave it out, or {form}")


def _write_file(source: Path, path: Path) -> int:
    from horizon_imagination.agent import Agent
    from horizon_imagination.checkpoint import trained_for
    from horizon_imagination.export.agent_file import export_agent
    from horizon_imagination.wording import size

    export_agent(Agent.load(source, "cpu"), path, trained_for(source))
    print(f"{path}: {size(path.stat().st_size)}, the whole agent in half precision")
    play = shlex.join(["horizon", "play", str(path)])
    print(f"it stands for a run in every command that needs an agent alone: {play}")
    return 0
