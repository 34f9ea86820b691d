"""Actor and critic: two recurrent networks of the same shape, which may share their encoder."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.models.recurrent import RecurrentNetwork, State
from horizon_imagination.types import Latents, Times


class Actor(RecurrentNetwork):
    """pi(a | z, tau): logits at every frame, clean or noisy."""

    def __init__(self, *, bias: tuple[float, ...] = (), **shape: int | bool) -> None:
        super().__init__(norm_layers=False, **shape)  # type: ignore[arg-type]
        if bias:
            if len(bias) != self.head.out_features:
                raise ValueError(
                    f"controller.actor_bias has {len(bias)} numbers, "
                    f"the environment has {self.head.out_features} actions"
                )
            with torch.no_grad():
                self.head.bias.copy_(torch.tensor(bias))

    def policy(self, z: Latents, tau: Times, state: State) -> Float[Tensor, "batch time action"]:
        """Action probabilities of frames that follow a state."""
        return self(z, tau, state)[0].float().softmax(-1)

    @torch.no_grad()
    def act(
        self, z: Latents, state: State, rng: torch.Generator, *, greedy: bool = False
    ) -> tuple[Int[Tensor, " batch"], State]:
        """An action on one new frame of a real world, and the state after it."""
        logits, states = self(z, None, state)
        if greedy:
            return logits[:, -1].argmax(-1), states.at(-1)
        probs = logits[:, -1].float().softmax(-1)
        action = torch.multinomial(probs, 1, generator=rng).squeeze(-1)
        return action, states.at(-1)


class Critic(RecurrentNetwork):
    """V(z): the symlog of the expected return, at clean frames."""

    def __init__(self, **shape: int | bool) -> None:
        super().__init__(norm_layers=False, outputs=1, use_tau=False, **shape)  # type: ignore[arg-type]
