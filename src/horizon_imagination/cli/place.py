"""Which agent a command line names, and where results about it go."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from horizon_imagination.errors import UsageError

if TYPE_CHECKING:
    from horizon_imagination.data import Store


@dataclass(frozen=True)
class Place:
    """An agent that was named: a run, a snapshot, a file, or one that comes with the package."""

    name: Path
    """As it was typed."""
    agent: Path
    """The folder of the weights that are used, or the file."""
    results: Path
    """Its run, or a folder beside the file."""

    def stored(self, data: Path | None) -> "Store":
        """The episodes of a dataset, or those that the run has stored."""
        from horizon_imagination.data import Store
        from horizon_imagination.report.pictures import replay_of
        from horizon_imagination.run.folder import is_run
        from horizon_imagination.run.read import load_run

        if data is not None:
            return Store.open(data)
        if not is_run(self.results):
            raise UsageError(
                f"{self.name} is an agent without a run, so no episodes are stored with it; name "
                "a dataset with --data"
            )
        return replay_of(load_run(self.results))


def place_of(name: Path) -> Place:
    """Where an agent is that a command line names."""
    from horizon_imagination.play.library import bundled
    from horizon_imagination.snapshots import find_agent, home

    if (folder := bundled(name)) is not None:
        return Place(name, folder, Path("runs") / f"{name}-results")
    return Place(name, find_agent(name), home(name))
