"""Which environments may run code: those somebody typed, not those a file names."""

from horizon_imagination.config import DatasetId, EnvConfig, UntrustedId
from horizon_imagination.envs.craftium import ACTIONS
from horizon_imagination.errors import UsageError


def check_trusted(cfg: EnvConfig) -> None:
    """Refuse code that a file names.

    A run, an agent and a dataset hold the id of their environment. An id `module:Name` is imported
    and called, and options of Craftium name programs, so neither may come out of a folder that
    somebody sent.
    """
    if not isinstance(cfg.id, UntrustedId):
        return
    if ":" in cfg.id:
        typed = f"name it yourself with --env {cfg.id}"
        help = typed if isinstance(cfg.id, DatasetId) else "add --trust if you trust the folder"
        raise UsageError(
            f"the environment {cfg.id} is code that a file names, and it is not imported: {help}"
        )
    if cfg.id in ACTIONS and cfg.options:
        raise UsageError(
            f"env.options of {cfg.id} come out of a file and may name programs: add --trust if you "
            "trust the folder"
        )
