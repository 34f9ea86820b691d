"""Stored experience: segments, the on-disk format, sampling, checks and imports."""

from horizon_imagination.data.layout import Episode
from horizon_imagination.data.replay import Replay, Rows
from horizon_imagination.data.segment import Segment, shift_right
from horizon_imagination.data.store import Store

__all__ = ["Episode", "Replay", "Rows", "Segment", "Store", "shift_right"]
