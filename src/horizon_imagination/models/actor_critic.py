"""Actor and critic: two recurrent networks of the same shape, which may share their encoder."""

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.actions import ActionSpace, as_space
from horizon_imagination.models.readout import READOUTS, ReadoutName
from horizon_imagination.models.recurrent import RecurrentNetwork, RecurrentState
from horizon_imagination.types import Action, Latents, Times


class Actor(RecurrentNetwork):
    """pi(a | z, tau): what describes a policy at every frame, such as logits."""

    def __init__(
        self, *, outputs: ActionSpace | int, bias: tuple[float, ...] = (), **shape: int | bool
    ) -> None:
        space = as_space(outputs)
        super().__init__(outputs=space.outputs, **shape)  # type: ignore[arg-type]
        self.action_space = space
        if bias:
            if len(bias) != self.head.out_features:
                raise ValueError(
                    f"controller.actor_bias has {len(bias)} numbers, "
                    f"the environment has {self.head.out_features} actions"
                )
            with torch.no_grad():
                self.head.bias.copy_(torch.tensor(bias))

    def policy(
        self, z: Latents, tau: Times, state: RecurrentState
    ) -> Float[Tensor, "batch time action"]:
        """The policy at frames that follow a state: probabilities, or means and deviations."""
        return self.action_space.policy(self(z, tau, state)[0].float())

    @torch.no_grad()
    def act(
        self, z: Latents, state: RecurrentState, rng: torch.Generator, *, greedy: bool = False
    ) -> tuple[Action, RecurrentState]:
        """An action on one new frame of a real world, and the state after it."""
        logits, states = self(z, None, state)
        space = self.action_space
        if greedy:
            return space.greedy(logits[:, -1].float()), states.at(-1)
        return space.sample(space.policy(logits[:, -1].float()), rng), states.at(-1)


class Critic(RecurrentNetwork):
    """V(z): the expected return at clean frames; `readout` turns outputs into it."""

    def __init__(self, *, readout: ReadoutName = "symlog", **shape: int | bool) -> None:
        read = READOUTS[readout]()
        super().__init__(outputs=read.size, use_tau=False, **shape)  # type: ignore[arg-type]
        self.readout = read
        read.start(self.head)
