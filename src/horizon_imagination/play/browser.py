"""Play from Python: the page of `horizon play` for a run, whatever its world model is."""

from pathlib import Path

from horizon_imagination.errors import UsageError
from horizon_imagination.run.read import Run


def play_in_browser(run: Run, *, port: int | None = None, seed: int = 0) -> None:
    """Serve the page on this machine until interrupted; `run` is what `train` or `load_run` gave.

    An agent that was given its world model plays in that one.
    """
    try:
        from horizon_imagination.play import server
    except ImportError as error:
        raise UsageError(
            f"the page needs {error.name}: pip install 'horizon_imagination[play]'"
        ) from error
    settings = server.Settings(
        Path(run.folder),
        run.folder / "plays",
        device=run.device,
        seed=seed,
        world_model=run.world_model,
    )
    app = server.application(settings, server.Gate(None, ("127.0.0.1",)))
    with server.listen("127.0.0.1", port) as at:
        print(f"open http://127.0.0.1:{at.getsockname()[1]}", flush=True)
        try:
            server.serve(app, at)
        except KeyboardInterrupt:
            print()
