"""Stored experience: segments, the on-disk format, sampling, checks and imports."""

from horizon_imagination.data.importers import import_npz, import_videos
from horizon_imagination.data.layout import Episode
from horizon_imagination.data.replay import Replay, Rows
from horizon_imagination.data.segment import Segment, shift_right
from horizon_imagination.data.store import Store
from horizon_imagination.data.validate import info, validate

__all__ = [
    "Episode",
    "Replay",
    "Rows",
    "Segment",
    "Store",
    "import_npz",
    "import_videos",
    "info",
    "shift_right",
    "validate",
]
