"""The policy at the entries it is trained on: one clean pass, then the windows of all rows.

An entry (row, column) asks for the policy at frame column - 1 as it was at that row. If that frame
was clean then, the clean pass has the answer; if not, a window does, begun from the state of the
clean pass at the first frame that was noisy. All windows run as one batch.
"""

from dataclasses import dataclass

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.engine.device_copies import device_copy, device_index
from horizon_imagination.imagination import Imagined, policy_entries
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.recurrent import RecurrentState, RecurrentStates
from horizon_imagination.types import Flags, Schedule


@dataclass(frozen=True)
class EntryPlan:
    """Where the policy of every entry comes from; plain indices, made once per schedule."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    """Entries: first those of the clean pass, then those of the windows."""
    num_clean: int
    window_starts: tuple[int, ...]
    """First noisy frame of each window; the state after the frame before it begins the window."""
    width: int
    frame_rows: tuple[int, ...]
    frames: tuple[int, ...]
    frame_slots: tuple[int, ...]
    """Noisy frames to encode: their row, index, and place among windows x width."""
    entry_slots: tuple[int, ...]
    """Place of each window entry among windows x width."""


def entry_plan(schedule: Schedule, *, clean_level: bool) -> EntryPlan:
    """Sort the entries of a schedule by where their policy comes from."""
    entries = policy_entries(schedule, clean_level=clean_level)
    clean = (schedule == 1).int().cumprod(1).sum(1).tolist()
    in_clean, in_window, windows = [], [], {}
    for row, column in entries.nonzero().tolist():
        if column <= clean[row]:
            in_clean.append((row, column))
        else:
            in_window.append((row, column))
            windows[row] = column  # columns rise: the last one sets the width
    width = max((last - clean[row] for row, last in windows.items()), default=0)
    place = {row: i for i, row in enumerate(windows)}
    noisy = [(r, f) for r, last in windows.items() for f in range(clean[r], last)]
    return EntryPlan(
        rows=tuple(r for r, _ in in_clean + in_window),
        columns=tuple(c for _, c in in_clean + in_window),
        num_clean=len(in_clean),
        window_starts=tuple(clean[r] for r in windows),
        width=width,
        frame_rows=tuple(r for r, _ in noisy),
        frames=tuple(f for _, f in noisy),
        frame_slots=tuple(place[r] * width + f - clean[r] for r, f in noisy),
        entry_slots=tuple(place[r] * width + c - 1 - clean[r] for r, c in in_window),
    )


def entry_logits(
    actor: Actor,
    plan: EntryPlan,
    schedule: Schedule,
    features: Float[Tensor, "batch seen hidden"],
    context_mask: Flags,
    imagined: Imagined,
) -> Float[Tensor, "entry batch action"]:
    """Logits at every entry, with gradient, in the order of the plan.

    `features` are the actor's of the context and of all imagined clean frames but the last. The
    context is left-padded: its last frame is the one before the first imagined.
    """
    batch, length = context_mask.shape
    ahead = context_mask.new_ones(batch, features.shape[1] - length)
    mask = torch.cat([context_mask, ahead], dim=1)
    logits, states = actor.from_features(features, None, mask)
    last = length - 1
    columns = device_index(plan.columns[: plan.num_clean], features.device)
    from_clean = rearrange(logits[:, last:][:, columns], "b entry a -> entry b a")
    if not plan.frames:
        return from_clean
    return torch.cat([from_clean, _window_logits(actor, plan, schedule, imagined, states, last)])


def _window_logits(
    actor: Actor,
    plan: EntryPlan,
    schedule: Schedule,
    imagined: Imagined,
    states: RecurrentStates,
    last: int,
) -> Float[Tensor, "entry batch action"]:
    device = imagined.z.device
    rows, frames, frame_slots, entry_slots, starts = (
        device_index(values, device)
        for values in (
            plan.frame_rows,
            plan.frames,
            plan.frame_slots,
            plan.entry_slots,
            plan.window_starts,
        )
    )
    batch, windows = imagined.z.shape[1], len(plan.window_starts)
    z = imagined.z[rows, :, frames]
    tau = repeat(device_copy(schedule, z)[rows, frames], "n -> n b", b=batch)
    features = actor.encoder(z, tau)
    padded = features.new_zeros(windows * plan.width, batch, features.shape[-1])
    padded = rearrange(
        padded.index_copy(0, frame_slots, features),
        "(window width) b d -> (window b) width d",
        width=plan.width,
    )
    begin = RecurrentState(*(_at(part, last + starts) for part in (states.h, states.c)))
    h = rearrange(actor.lstm(padded, begin).h, "(window b) width d -> (window width) b d", b=batch)
    return actor.head(h[entry_slots])


def _at(
    sequence: Float[Tensor, "batch time hidden"], times: Int[Tensor, " window"]
) -> Float[Tensor, "window_batch hidden"]:
    return rearrange(sequence[:, times], "b window d -> (window b) d")
