"""`horizon play`: act in a world model, and watch it imagine, in a browser."""

import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from horizon_imagination.cli.parse import parse
from horizon_imagination.cli.place import place_of
from horizon_imagination.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Serve a page on which to play in the world model of a run, and to see it imagine.

    Without a run, small agents that come with the package play catch and fog.
    """

    run: Annotated[Positional[Path | None], arg(metavar="[RUN]")] = None
    """A run, one of its snapshots, or an agent's file; catch or fog for one of these alone."""
    data: tuple[Path, ...] = ()
    """Further datasets to browse and to start from."""
    out: Path | None = None
    """Folder for recordings; by default `plays` in the run, or runs/plays."""
    host: str = "127.0.0.1"
    """Address to serve on; others than this machine can then connect, with a token."""
    port: int | None = None
    """Port to serve on; 7788 by default, or any that is free; 0 for any."""
    allow_hosts: tuple[str, ...] = ()
    """Further names that browsers may call this server by."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best one available."""
    seed: int = 0
    """Seed of the world and of the noise."""
    trust: bool = False
    """Import the environment that the run's own files name as `module:Name`."""


def main(argv: list[str]) -> int | None:
    """Load, listen, serve until interrupted."""
    args = parse(Arguments, argv, prog="horizon play")
    try:
        from horizon_imagination.play import server
    except ImportError as error:
        raise UsageError(
            f"the page needs {error.name}: pip install 'horizon_imagination[play]'"
        ) from error
    if args.port is not None and not 0 <= args.port < 2**16:
        raise UsageError(f"--port is {args.port}: expected 0 to 65535")
    local = args.host in server.LOOPBACK
    token = None if local else secrets.token_urlsafe(24)
    names = (args.host, *args.allow_hosts) + (() if local else (socket.gethostname().lower(),))
    out = args.out or (place_of(args.run).results if args.run else Path("runs")) / "plays"
    settings = server.Settings(args.run, out, args.data, args.device, args.seed, args.trust)
    app = server.application(settings, server.Gate(token, names))
    with server.listen(args.host, args.port) as at:
        name = f"[{args.host}]" if ":" in args.host else args.host
        query = f"/?token={token}" if token else ""
        print(f"open http://{name}:{at.getsockname()[1]}{query}", flush=True)
        if why := app.state.hub.worker.no_env:
            print(f"the real world is left out: {why}", flush=True)
        if token:
            print("whoever knows this address can play: the connection is not encrypted")
        try:
            server.serve(app, at)
        except KeyboardInterrupt:
            print()
    return 0
