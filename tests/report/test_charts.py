"""Charts can be read: one span for a page, names where no curve is, axes that mean something."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from horizon_imagination.config import Config, TrainingConfig
from horizon_imagination.presets import CATCH
from horizon_imagination.report import page
from horizon_imagination.report.charts import UNHEEDED_CHANGES, learning_charts, loss_charts
from horizon_imagination.report.curves import Chart, Line, as_svg, figure, over_one_span
from horizon_imagination.report.levels import freest, spots
from horizon_imagination.report.run_page import key_numbers
from horizon_imagination.run.read import Run

X = np.arange(1.0, 41.0)


def axes_of(chart: Chart):
    drawn = figure(chart)
    FigureCanvasAgg(drawn).draw()
    return drawn.axes[0]


def run_of(**metrics: list[float]) -> Run:
    """A run with these metrics, one value per epoch; `__` stands for a slash."""
    columns = {name.replace("__", "/"): values for name, values in metrics.items()}
    count = len(next(iter(columns.values())))
    history = [
        {"epoch": i, "env/steps": 10 * (i + 1)} | {k: v[i] for k, v in columns.items()}
        for i in range(count)
    ]
    return Run(Path("run"), CATCH, history=history)


def chart_of(run: Run, title: str) -> Chart:
    return next(chart for chart in learning_charts(run) if chart.title.startswith(title))


def test_charts_of_a_page_have_one_span():
    early, late = Chart("early", [Line("", X, X)]), Chart("late", [Line("", X[30:], X[30:])])
    spans = [axes_of(chart).get_xlim() for chart in over_one_span([early, late])]
    assert spans[0] == spans[1] and spans[0][0] <= 1 and spans[0][1] >= 40
    assert over_one_span([Chart("empty", [])])[0].span is None


@pytest.mark.parametrize("level, y", [(1.0, np.minimum(X / 20, 1)), (0.0, np.maximum(X / 20, 1))])
def test_the_name_of_a_level_stands_where_no_curve_is(level, y):
    axes = axes_of(Chart("title", [Line("", X, y)], levels={"best": level}))
    box = axes.texts[0].get_window_extent().transformed(axes.transData.inverted())
    covered = (box.x0 <= X) & (box.x1 >= X) & (box.y0 <= y) & (box.y1 >= y)
    assert not covered.any()
    assert axes.texts[0].get_bbox_patch() is not None, "a ground of its own, for want of room"


def test_names_of_levels_leave_the_axes_only_where_they_must():
    crowded = np.array([[0.9, 0.95], [0.9, 0.85], [0.1, 0.95], [0.1, 0.85], [0.5, 0.85]])
    assert freest(spots(0.98, 0.2, 0.1), np.zeros((0, 2))).above is False
    assert freest(spots(0.9, 0.3, 0.08), crowded).side == "center"


def test_pages_give_the_grounds_of_names_their_own_colour():
    svg = as_svg(figure(Chart("title", [Line("", X, X)], levels={"best": 3.0})))
    assert "var(--card)" in svg and "#fefefd" not in svg


def test_a_short_run_ends_where_its_last_episodes_are():
    returns = [-0.5] * 30 + [0.0, 0.6, 0.9, 1.0]
    line = chart_of(run_of(env__return=returns), "Return").lines[-2]
    assert line.label == "training" and not line.smoothed
    long = chart_of(run_of(env__return=returns * 4), "Return").lines[-2]
    assert long.smoothed and long.smooth == 15, "as in the paper"


def test_one_early_value_does_not_flatten_the_unheeded_changes():
    run = run_of(world_model__unheeded_changes=[-2.3, 0.2, 0.1, 0.0])
    low, high = axes_of(chart_of(run, "Unheeded")).get_ylim()
    assert low > -0.3 and high < 1.3
    assert list(chart_of(run, "Unheeded").levels.values()) == [0.5], "where the doctor warns"
    assert UNHEEDED_CHANGES in run.metrics()


def test_shares_and_counts_begin_at_zero():
    ends = {"world_model__ends": [31.0, 32.0], "world_model__ends_foreseen": [31.9, 32.0]}
    low, high = axes_of(chart_of(run_of(**ends), "Episode ends")).get_ylim()
    assert low < 0 and high > 32
    low, high = axes_of(chart_of(run_of(controller__ended=[0.9, 1.0]), "Share of")).get_ylim()
    assert -0.05 < low < 0 and 1 < high < 1.05
    ticks = axes_of(chart_of(run_of(controller__ended=[0.9, 1.0]), "Share of")).get_yticks()
    assert max(tick for tick in ticks if tick < high) < 1.01


def test_what_never_changes_is_a_line_of_text():
    text = page.charts(learning_charts(run_of(controller__ended=[1.0, 1.0, 1.0])))
    assert "<svg" not in text and "Never changed: Share of imaginations that end: 1." in text
    losses = {"world_model__reward": [0.5, 0.5], "world_model__end": [0.25, 0.25]}
    text = page.charts(loss_charts(run_of(**losses)))
    assert "World model loss: reward 0.5, end 0.25" in text
    assert "<svg" in page.charts(learning_charts(run_of(controller__ended=[1.0]))), "one epoch"


def test_the_legend_of_a_chart_is_text_of_the_page():
    lines = [Line(name, X, X, smooth=5) for name in ("ours", "others")]
    lines.append(Line("published", X, X, style=":"))
    text = page.charts([Chart("title", lines)])
    assert text.count("bold: mean of 5 epochs") == 1 and "3px dotted" in text
    assert ">ours</text>" not in text, "not in the picture, where it would lie on the curves"


def test_cards_have_two_lines_at_most_below_their_number():
    run = run_of(env__return=[0.1], env__episodes=[1234], evaluation__return=[0.5])
    for _, label in key_numbers(run):
        lines = label.split("\n")
        assert len(lines) <= 2 and max(map(len, lines)) <= 26, label


def test_a_run_that_its_target_stopped_says_so():
    training = TrainingConfig(epochs=9, target_return=0.5)
    for score, told in ((0.4, "epochs"), (0.5, "epochs\ntarget reached")):
        history = [{"epoch": 0, "evaluation/return": score}]
        run = Run(Path("run"), Config(training=training), history=history)
        assert ("1 of 9", told) in key_numbers(run)
