"""The fused denoiser is the denoiser, window by window."""

import pytest
import torch

pytest.importorskip("triton")
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.kernels.window import gelu_, residual_norm, window_attention
from horizon_imagination.models.attention import frame_causal_mask, rotary_angles, rotate
from horizon_imagination.models.denoiser import Denoiser

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("dim", [32, 48])
@pytest.mark.parametrize("first", [True, False])
def test_residual_and_norm_are_the_written_out_ones(kernel_device, first, dim):
    rng = torch.Generator(kernel_device).manual_seed(0)
    rand = lambda *shape: torch.randn(*shape, generator=rng, device=kernel_device)  # noqa: E731
    x, branch, modulation = rand(2, 3, 4, dim), rand(2, 3, 4, dim), rand(2, 3, 5 * dim)
    parts = [p[:, :, None] for p in modulation.split(dim, dim=-1)]
    summed = x if first else x + parts[0] * branch
    normal = torch.nn.functional.layer_norm(summed, (dim,), eps=1e-5)
    stream, out = x.clone(), torch.empty_like(x)
    residual_norm(stream, None if first else branch, modulation, gate=0, shift=2, scale=4, out=out)
    torch.testing.assert_close(stream, summed)
    torch.testing.assert_close(out, normal * (1 + parts[4]) + parts[2], atol=1e-5, rtol=1e-5)


def test_gelu_is_the_exact_one_in_place(kernel_device):
    x = torch.linspace(-6, 6, 5001, device=kernel_device)
    wanted = torch.nn.functional.gelu(x)
    assert gelu_(x) is x
    torch.testing.assert_close(x, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("start,frames", [(0, 3), (2, 1), (3, 2), (1, 6)])
def test_attention_is_that_of_the_whole_sequence(kernel_device, start, frames):
    batch, heads, dim, size = 2, 2, 16, 2
    tokens, total = size**2, start + frames
    rng = torch.Generator(kernel_device).manual_seed(0)
    qkv = torch.randn(batch, total * tokens, 3 * heads * dim, generator=rng, device=kernel_device)
    q, k, v = (part.unflatten(-1, (heads, dim)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    angles = rotary_angles(dim, 0, total, size, kernel_device)
    mask = frame_causal_mask(total, tokens, kernel_device)
    whole = torch.nn.functional.scaled_dot_product_attention(
        rotate(q, angles), rotate(k, angles), v, attn_mask=mask
    )
    keys = torch.full((batch, heads, total * tokens + 8, dim), torch.nan, device=kernel_device)
    values = keys.clone()
    for begin, end in [(0, start), (start, total)] if start else [(0, total)]:
        part = qkv[:, begin * tokens : end * tokens].contiguous()
        out = window_attention(part, *angles, keys, values, first=begin * tokens, tokens=tokens)
    wanted = whole[:, :, start * tokens :].transpose(1, 2).flatten(2)
    torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "dtype,error",
    [(torch.float32, 1e-5), pytest.param(torch.bfloat16, 0.02, marks=pytest.mark.gpu)],
)
def test_windows_of_the_fused_denoiser_are_those_of_the_plain_one(kernel_device, dtype, error):
    torch.manual_seed(0)
    plain = Denoiser(
        channels=2, size=4, action_space=3, layers=2, heads=2, head_dim=16, patch_size=2,
        mlp_ratio=2, prediction="clean", action_tokens=True, normalize=True,
    )  # fmt: skip
    torch.nn.init.normal_(plain.modulate.weight, std=0.1)
    plain.to(kernel_device)
    fused = FusedDenoiser(plain, dtype)
    with torch.no_grad():
        plain.embed.weight.mul_(1.5)  # what was copied before is old
    fused.refresh()
    z = torch.rand(2, 5, 2, 4, 4, device=kernel_device) * 2 - 1
    tau = torch.tensor([[1.0, 1.0, 0.7, 0.3, 0.0]], device=kernel_device).expand(2, 5)
    actions = torch.tensor([[-1, 0, 1, 2, 0], [-1, 2, 2, 1, 1]], device=kernel_device)
    caches = fused.cache(5), plain.cache(5)
    for begin, end in [(0, 3), (2, 4), (2, 5)]:
        here = slice(begin, end)
        ours, theirs = (
            net.window(z[:, here], tau[:, here], actions[:, here], cache=cache, start=begin)
            for net, cache in zip((fused, plain), caches, strict=True)
        )
        moves = tau[:, here] < 1  # at 1 the velocity is a difference divided by nothing
        ours, theirs = ours[moves], theirs[moves].detach()
        assert float((ours - theirs).norm() / theirs.norm()) < error
