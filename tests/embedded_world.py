"""The embedded world model around a denoiser of a test."""

from horizon_imagination.engine.embedded import EmbeddedWorldModel
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer


def around(denoiser, reward=None):
    """Tokenizer and reward model are small and untrained; nothing of a test depends on them."""
    tokenizer = Tokenizer(
        size=8, image_channels=1, patch_size=1, channels=4, multipliers=(1,), encoder_blocks=1,
        decoder_blocks=1, attention_at=(), latent_channels=2, norm_groups=2,
    )  # fmt: skip
    reward = reward or RewardModel(
        channels=2, size=4, cnn_channels=4, cnn_out_channels=2, hidden=4, normalize=False
    )
    if isinstance(denoiser, FusedDenoiser):
        return EmbeddedWorldModel(tokenizer, denoiser.source, reward, denoiser)
    return EmbeddedWorldModel(tokenizer, denoiser, reward)
