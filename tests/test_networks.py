"""Sizes that do not fit one another are refused in one line, before a network is built."""

import pytest
import torch

from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError
from horizon_imagination.networks import build_networks, check_sizes
from horizon_imagination.presets import PRESETS, replaced

PAPER, DEMO, DEBUG = (PRESETS[name][1] for name in ("paper", "demo", "debug"))


@pytest.mark.parametrize("config", [one[1] for one in PRESETS.values()], ids=list(PRESETS))
def test_the_sizes_of_every_preset_fit(config):
    check_sizes(config)
    with torch.device("meta"):
        tokenizer = build_networks(config, 3).tokenizer
    assert tokenizer.latent_size * config.tokenizer.pixels_per_cell == config.env.size


@pytest.mark.parametrize(
    ("config", "section", "fields", "said"),
    [
        (PAPER, "env", {"size": 84}, "env.size 84 does not fit: the tokenizer divides frames by 8 "
         "and the denoiser by 2 more, so the size must be a multiple of 16 (80 or 96)"),
        (DEMO, "env", {"size": 84}, "by 8 and the denoiser by 4 more, so the size must be a "
         "multiple of 32 (64 or 96)"),
        (DEMO, "env", {"size": 50}, "(32 or 64)"),
        (DEMO, "env", {"size": 80}, "env.size 80 and denoiser.patch_size 4 do not fit: the "
         "patches must divide 10 x 10 latents; take a size that is a multiple of 32 (64 or 96), "
         "or patches of one of 1, 2, 5, 10"),
        (DEBUG, "env", {"size": 36}, "env.size 36 does not fit"),
        (DEBUG, "env", {"size": 4}, "multiple of 16 (16)"),
        (DEBUG, "denoiser", {"patch_size": 3}, "patches of one of 1, 2, 4"),
        (DEBUG, "denoiser", {"patch_size": 0}, "denoiser.patch_size is 0: expected at least 1"),
        (DEBUG, "denoiser", {"head_dim": 3}, "denoiser.head_dim 3 is odd"),
        (DEBUG, "tokenizer", {"channels": 10}, "tokenizer.channels 10 is not a multiple of "
         "tokenizer.norm_groups 4: take other channels (8 or 12) or other groups"),
        (DEBUG, "tokenizer", {"norm_groups": 5}, "(5 or 10)"),
        (DEBUG, "tokenizer", {"latent_channels": 0}, "tokenizer.latent_channels is 0"),
        (DEBUG, "reward", {"hidden": 0}, "reward.hidden is 0"),
        (DEBUG, "imagination", {"context": 5}, "imagination.context 5 is larger than "
         "controller.context 3"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused_with_some_that_do(config, section, fields, said):
    wrong = replaced(config, **{section: fields})
    with torch.device("meta"), pytest.raises(UsageError) as caught:
        build_networks(wrong, 3)
    assert said in str(caught.value)


@pytest.mark.parametrize("size", [80, 96])
def test_the_sizes_that_are_proposed_work(size):
    with torch.device("meta"):
        build_networks(replaced(PAPER, env={"size": size}), 3)


def test_a_config_that_fits_no_network_is_still_a_config():
    assert replaced(Config(), env={"size": 84}).env.size == 84, "old runs are read"
