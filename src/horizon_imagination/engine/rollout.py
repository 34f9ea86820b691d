"""Imagination over a window of frames and a cache of settled ones; same result as the plain loop.

Each row evaluates only the frames of its window (`windows.window_plan`), for the denoiser and for
the recurrent actor alike. All randomness is drawn beforehand and no value is read by the host, so
that the loop can be captured as one graph.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool
from torch import Tensor

from horizon_imagination.engine.device_copies import device_copy
from horizon_imagination.engine.draws import Draws, Sampler, choose
from horizon_imagination.imagination import Context, Imagined
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.types import Action, Actions, Flags, Schedule, no_action
from horizon_imagination.windows import window_plan
from horizon_imagination.world_model import WindowedWorldModel


class WindowedActor:
    """Actions along the rows: the state after the settled frames, then the window."""

    def __init__(
        self,
        actor: Actor,
        sampler: Sampler,
        state: RecurrentState,
        first_action: Action,
        draws: Draws,
        schedule: Schedule,
    ) -> None:
        self.actor, self.state, self.draws = actor, state, draws
        self.sampler: Sampler = sampler
        batch, horizon = draws.noise.shape[:2]
        self.schedule = device_copy(schedule, draws.noise)
        self.clean = (schedule == 1).int().cumprod(1).sum(1).tolist()
        self.settled = 0
        shape = (batch, horizon, *first_action.shape[1:])
        self.actions = first_action.new_full(shape, no_action(first_action))
        self.actions[:, 0] = first_action
        self.probs = draws.noise.new_zeros(batch, horizon, actor.action_space.outputs)

    def act(self, row: int, z: Tensor, stop: int) -> Actions:
        """The actions that lead to frames before `stop`, given the frames at this row."""
        begin = self.settled
        columns = slice(max(1, begin), stop)
        previous_probs = self.probs[:, columns]
        if stop - 1 > begin:
            self.probs = self.probs.clone()
            self.probs[:, begin + 1 : stop] = self._policy(row, z, begin, stop - 1)
        if stop > columns.start:
            chosen = choose(
                self.sampler,
                row,
                columns,
                repeat(self.schedule[row, columns], "t -> b t", b=len(z)),
                self.probs[:, columns],
                previous_probs,
                self.actions[:, columns],
                self.draws,
                self.actor.action_space,
            )
            self.actions = self.actions.clone()
            self.actions[:, columns] = chosen
        return self.actions

    def _policy(self, row: int, z: Tensor, begin: int, end: int) -> Tensor:
        """The policy at frames begin .. end; those clean by now settle."""
        tau = repeat(self.schedule[row, begin:end], "t -> b t", b=len(z))
        features = self.actor.encoder(z[:, begin:end], tau)
        settled = max(begin, min(self.clean[row], end))
        outputs = []
        if settled > begin:
            states = self.actor.lstm(features[:, : settled - begin], self.state)
            self.state, self.settled = states.at(-1), settled
            outputs.append(states.h)
        if end > settled:
            outputs.append(self.actor.lstm(features[:, settled - begin :], self.state).h)
        said = self.actor.head(torch.cat(outputs, dim=1)).float()
        return self.actor.action_space.policy(said)


class RecordedActor:
    """Actions given in advance, for every row and frame."""

    def __init__(self, rows: Sequence[Actions]) -> None:
        self.rows = rows

    def act(self, row: int, z: Tensor, stop: int) -> Actions:
        """Those of a row."""
        return self.rows[row]


@torch.no_grad()
def imagine_windowed(
    world: WindowedWorldModel,
    actor: WindowedActor | RecordedActor,
    noise: Tensor,
    schedule: Schedule,
    context: Context,
    *,
    real: Flags | None = None,
    record: bool = True,
) -> Imagined:
    """What `imagination.imagine` returns, from the windows alone.

    Actions that no frame has asked for yet are NO_ACTION. `real` is False where a left-padded
    context has no frame. Without `record` only the clean row is kept.
    """
    batch, horizon = noise.shape[:2]
    k = context.z.shape[1]
    times = device_copy(schedule, noise)
    cache = world.cache(k + horizon)
    z, frames, actions = noise, [noise], []
    for window in window_plan(schedule, k):
        row, start, stop = window.row, window.start, window.stop
        chosen = actor.act(row, z, stop - k)
        if window.width:
            tau = torch.cat([times.new_ones(k), times[row]])[start:stop]
            v = world.window(
                torch.cat([context.z, z], dim=1)[:, start:stop],
                repeat(tau, "t -> b t", b=batch),
                torch.cat([context.prev_actions, chosen], dim=1)[:, start:stop],
                cache=cache,
                start=start,
                real=None if real is None else real_frames(real, stop),
            )
            first = max(start, k)
            dtau = rearrange((times[row + 1] - times[row])[first - k : stop - k], "t -> t 1 1 1")
            old = z[:, first - k : stop - k]
            z = z.clone()
            z[:, first - k : stop - k] = torch.where(
                dtau > 0, old + dtau * v[:, first - start :], old
            )
        if record:
            frames.append(z)
            actions.append(chosen)
    actions.append(actor.act(len(schedule) - 1, z, horizon))
    return Imagined(torch.stack(frames if record else [z]), torch.stack(actions))


def real_frames(real: Flags, frames: int) -> Bool[Tensor, "batch {frames}"]:
    """The flags of a context, continued over imagined frames, which are all real."""
    return F.pad(real, (0, frames - real.shape[1]), value=True)
