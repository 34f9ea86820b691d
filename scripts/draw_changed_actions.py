"""Draws docs/figures/changed-actions.png: one future whose actions change on the way, twice.

python scripts/draw_changed_actions.py RUN HEEDING [SEED]

RUN is a run of the preset `demo` with --world-model.change-every 0, HEEDING one with 2. Both
imagine the same moment of the first run's play, from the same noise.
"""

import sys
from dataclasses import replace
from pathlib import Path

from horizon_imagination.agent import Agent
from horizon_imagination.report.pictures import replay_of, save_strips
from horizon_imagination.report.strips import Row, Strip, make_scene, sampler_strips
from horizon_imagination.run.read import load_run

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "changed-actions.png"
REAL, GIVEN, CHANGED = 0, 2, 3
"""Rows of a strip."""


def main() -> None:
    """Real, given from the start, and changed on the way in both world models."""
    runs, seed = sys.argv[1:3], int((*sys.argv[3:], 3)[0])
    store = replay_of(load_run(Path(runs[0])))
    rows: list[list[Row]] = []
    for run in runs:
        agent = Agent.load(run, "cpu")
        horizon = agent.config.imagination.horizon
        scene = make_scene(agent, store, count=1, horizon=horizon, seed=seed)
        rows.append(sampler_strips(agent, scene, seed=seed, samplers=())[0].rows)
    shown = {
        "real": rows[0][REAL],
        "actions from the start": rows[0][GIVEN],
        "changed on the way": rows[0][CHANGED],
        "the same, heeded": rows[1][CHANGED],
    }
    strip = Strip([replace(row, label=label, note="") for label, row in shown.items()], 1)
    for written in save_strips(FIGURE, [strip]):
        if written != FIGURE:
            written.unlink()  # the film
    store.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
