"""A run beside the published ones of the same world and setting."""

from dataclasses import replace

from horizon_imagination.config import Config
from horizon_imagination.metrics.published import (
    WINDOW,
    published_at,
    published_configs,
    recent_return,
)
from horizon_imagination.report.curves import PALETTE, Line
from horizon_imagination.report.page import readable
from horizon_imagination.report.records import RunRecord
from horizon_imagination.report.suite import PAPER_SETTINGS, curve_of, published_suite
from horizon_imagination.report.suite_figures import mean_line


def published_setting(config: Config) -> str | None:
    """The published setting that a config repeats, or none."""
    cfg, naive = config.imagination, config.imagination.sampler == "naive"
    if cfg.horizon != 32 or cfg.sampler not in ("stable", "naive"):
        return None
    for name in published_configs(config.env.id):
        same = PAPER_SETTINGS[name] == (cfg.budget, cfg.decay_horizon)
        if same and name.startswith("naive") == naive and not name.startswith("ablation"):
            return name
    return None


def published_lines(record: RunRecord, window: int) -> list[Line]:
    """Mean and deviation of the published runs, as far as this one has come."""
    setting = None if record.offline else published_setting(record.config)
    if setting is None or not record.env_steps:
        return []
    runs = published_suite().of(record.config.env.id, setting)
    past = [run.until(record.env_steps) for run in runs]
    label = f"published ({setting}, {len(runs)} seeds)"
    return [replace(mean_line(past, label, PALETTE[3], window), style=":")]


def published_numbers(record: RunRecord) -> list[tuple[str, str]]:
    """The recent training return of a run and of the published ones, at the same step."""
    setting = None if record.offline else published_setting(record.config)
    curve = curve_of(record)
    if setting is None or not len(curve.steps):
        return []
    step = record.env_steps
    ours = recent_return(curve, step)
    theirs = published_at(record.config.env.id, setting, step)
    if ours is None or theirs is None:
        return []
    return [
        (readable(ours, 3), f"training return, episodes of the last {WINDOW:,} steps"),
        (
            f"{readable(theirs.mean, 3)} ± {readable(theirs.std, 3)}",
            f"the same of the published {setting} runs ({theirs.seeds} seeds) at this step",
        ),
    ]
