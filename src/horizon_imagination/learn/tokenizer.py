"""The tokenizer's loss (Eq. 4): squared error and, if asked, distance in VGG features."""

from collections.abc import Callable

import torch
from einops import repeat
from jaxtyping import Float, UInt8
from torch import Tensor

from horizon_imagination.flow import uniform_noise
from horizon_imagination.learn.learner import Losses, Term
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.models.tokenizer import Tokenizer, to_images


def tokenizer_loss(
    tokenizer: Tokenizer,
    perceptual: Callable[[Tensor, Tensor], Tensor] | None,
    latent_noise: float,
    rng: torch.Generator,
    frames: UInt8[Tensor, "batch channel height width"],
    ranks: Ranks = Ranks(),  # noqa: B008  (frozen)
) -> Losses:
    """Reconstruct frames through the latents, shaken a little if asked."""
    batch, frames = len(frames), ranks.share(frames)
    images = to_images(frames)
    z = tokenizer.encode_images(images)
    if latent_noise:
        z = z + latent_noise * ranks.share(uniform_noise(batch, *z.shape[1:], rng=rng))
    rebuilt = tokenizer.decode_images(z).float()
    error = (rebuilt - images).square().mean(dim=(1, 2, 3))
    count = images.new_full((), len(frames))
    terms = {"reconstruction": Term(error.sum(), count)}
    if perceptual is not None:
        distance = perceptual(coloured(rebuilt), coloured(images))
        terms["perceptual"] = Term(distance * count, count)
    metrics = {name: ranks.mean(term.total, term.count) for name, term in terms.items()}
    return Losses(terms, metrics)


def coloured(images: Float[Tensor, "batch _ height width"]) -> Float[Tensor, "_ 3 height width"]:
    """Images for a network that sees colours; every channel of a stack is a grey one."""
    if images.shape[1] == 3:
        return images
    return repeat(images, "b c h w -> (b c) three h w", three=3)
