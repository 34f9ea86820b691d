"""What all figures share: one palette, one style of axes, one way to save them."""

from pathlib import Path
from typing import TYPE_CHECKING

from horizon_imagination.files import replacing
from horizon_imagination.provenance import provenance, told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = (
    *("#0072B2", "#DE8F05", "#009E73", "#B86AA0"),
    *("#7A7F87", "#D55E00", "#8C6D46", "#4A9FD8"),
)
"""Okabe and Ito's colours, which colour-blind readers tell apart; darker where a thin line of them
would be pale on white, and all of them visible on a dark page."""
INK = "#123457"
"""Stands for the text colour of the page that a figure becomes part of."""
PAPER = "#fefefd"
"""Stands for the ground of that page."""


def colour_of(place: int) -> str:
    """The colour of one line among several."""
    return PALETTE[place % len(PALETTE)]


def style_axes(axes: "Axes") -> None:
    """Two spines, a pale grid, ticks and labels in ink."""
    axes.tick_params(colors=INK, length=3, which="both")
    axes.grid(alpha=0.18, color=INK, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure atomically, in the format that its name ends with.

    Its metadata say when, where and by which version it was made. Nothing else in it depends on the
    time, so that the same figure of the same day and commit is the same file.
    """
    made = {"Description": told(provenance())}
    metadata = made | ({"Date": None} if path.suffix == ".svg" else {"Software": None})
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=140, metadata=metadata)
