"""The tokenizer: shapes, range, and where its attention sits."""

import pytest
import torch

from horizon_imagination.models.tokenizer import (
    Downsample,
    SpatialAttention,
    Tokenizer,
    Upsample,
    to_frames,
    to_images,
)

SMALL = {
    "size": 32, "image_channels": 3, "patch_size": 1, "channels": 8, "multipliers": (1, 2, 2),
    "encoder_blocks": 1, "decoder_blocks": 2, "attention_at": (8,), "latent_channels": 5,
    "norm_groups": 4,
}  # fmt: skip


def make(**changes):
    torch.manual_seed(0)
    return Tokenizer(**(SMALL | changes))


def frames(size=32, channels=3):
    rng = torch.Generator().manual_seed(1)
    return torch.randint(256, (2, 3, channels, size, size), generator=rng, dtype=torch.uint8)


@pytest.mark.parametrize(
    "changes,latent",
    [({}, (5, 4, 4)), ({"patch_size": 2}, (5, 2, 2)), ({"multipliers": (2,)}, (5, 16, 16))],
)
def test_shapes_go_there_and_back(changes, latent):
    tokenizer = make(**changes)
    z = tokenizer.encode(frames())
    assert z.shape == (2, 3, *latent) and tokenizer.latent_size == latent[1]
    back = tokenizer.decode(z)
    assert back.shape == (2, 3, 3, 32, 32) and back.dtype == torch.uint8


def test_grey_frames_have_one_channel():
    tokenizer = make(image_channels=1)
    assert tokenizer.decode(tokenizer.encode(frames(channels=1))).shape == (2, 3, 1, 32, 32)


def test_latents_stay_within_one_however_large_the_weights():
    tokenizer = make()
    with torch.no_grad():
        for p in tokenizer.parameters():
            p.mul_(20)
    z = tokenizer.encode(frames())
    assert z.abs().max() <= 1 and z.abs().max() > 0.99 and z.dtype == torch.float32


def test_every_frame_is_encoded_by_itself():
    tokenizer, x = make(), frames()
    z = tokenizer.encode(x)
    torch.testing.assert_close(tokenizer.encode(x[1:, 2:])[0, 0], z[1, 2], atol=1e-5, rtol=1e-5)


def attention_maps(network, x):
    """Resolutions of the feature maps that attention layers see."""
    seen = []
    hooks = [
        layer.register_forward_hook(lambda _, args, out: seen.append(args[0].shape[-1]))
        for layer in network.modules()
        if isinstance(layer, SpatialAttention)
    ]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    return seen


def test_attention_is_at_the_same_resolution_in_encoder_and_decoder():
    """At 8 x 8 of a 32 x 32 frame, as at 16 x 16 of 64 x 64; the middle has its own."""
    tokenizer = make()
    assert attention_maps(tokenizer.encoder, torch.zeros(1, 3, 32, 32)) == [8, 4]
    assert attention_maps(tokenizer.decoder, torch.zeros(1, 5, 4, 4)) == [4, 8, 8]


def test_pixels_and_images_are_inverse():
    levels = torch.arange(256, dtype=torch.uint8)
    images = to_images(levels)
    assert images.min() == -1 and images.max() == 1
    assert torch.equal(to_frames(images), levels)
    assert to_frames(torch.tensor([-3.0, 3.0])).tolist() == [0, 255]


def test_sampling_halves_and_doubles():
    x = torch.randn(1, 4, 6, 6)
    assert Downsample(4)(x).shape == (1, 4, 3, 3) and Upsample(4)(x).shape == (1, 4, 12, 12)


def test_space_to_depth_keeps_pixels_in_place():
    """An encoder and decoder that copy give the image back through the patches."""
    tokenizer = make(patch_size=4)
    tokenizer.encoder, tokenizer.decoder = torch.nn.Identity(), torch.nn.Identity()
    x = to_images(frames()[0])
    torch.testing.assert_close(tokenizer.decode_images(tokenizer.encode_images(x)), torch.tanh(x))
