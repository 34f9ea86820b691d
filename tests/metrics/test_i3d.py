"""I3D: its arithmetic on small inputs, the published network where cached, orderings of videos."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from horizon_imagination.metrics.frechet import frechet_distance
from horizon_imagination.metrics.i3d import (
    I3D,
    LAYERS,
    Unit,
    pool,
    prepare,
    same_padding,
    video_features,
)
from horizon_imagination.pretrained import install, is_installed, load_weights

CLIPS, FRAMES = 16, 16


def tiny_weights():
    """The right layers with two channels per branch."""
    rng, weights, inputs = torch.Generator().manual_seed(0), {}, 3

    def add(name, outputs, inputs, kernel):
        shape = (outputs, inputs, *kernel)
        weights[f"{name}.weight"] = torch.randn(shape, generator=rng) / np.sqrt(np.prod(shape[1:]))
        weights[f"{name}.bias"] = 0.1 * torch.randn(outputs, generator=rng)

    for name in LAYERS:
        if name.startswith("Conv"):
            add(name, 4, inputs, (int(name[-1]),) * 3)
            inputs = 4
            continue
        for branch, kernels in enumerate(((1,), (1, 3), (1, 3), (1,))):
            width = inputs
            for letter, kernel in zip("ab", kernels, strict=False):
                unit = f"Conv3d_0{'b' if branch == 3 else letter}_{kernel}x{kernel}"
                add(f"{name}/Branch_{branch}/{unit}", 2, width, (kernel,) * 3)
                width = 2
        inputs = 8
    add("Logits/Conv3d_0c_1x1", 400, 8, (1, 1, 1))
    return weights


def waves(frames=9, size=32):
    """A fixed video of moving waves."""
    grid = [torch.arange(n) for n in (frames, size, size)]
    t, y, x = torch.meshgrid(*grid, indexing="ij")
    channels = [torch.sin(0.3 * x + 0.2 * (c + 1) * y + 0.5 * t + c) for c in range(3)]
    return (127.5 + 100 * torch.stack(channels, dim=1)).byte()[None]


@pytest.mark.parametrize(
    "size,kernel,stride,expected",
    [
        (224, 7, 2, [2, 3]),
        (112, 3, 2, [0, 1]),
        (7, 3, 2, [1, 1]),
        (5, 2, 2, [0, 1]),
        (8, 3, 1, [1, 1]),
    ],
)
def test_padding_is_as_tensorflow_has_it(size, kernel, stride, expected):
    assert same_padding((size,) * 3, (kernel,) * 3, (stride,) * 3) == expected * 3


@pytest.mark.parametrize("shape", [(9, 13, 14), (16, 28, 28)])
@pytest.mark.parametrize(
    "kernel,stride",
    [
        ((1, 3, 3), (1, 2, 2)),
        ((3, 3, 3), (2, 2, 2)),
        ((2, 2, 2), (2, 2, 2)),
        ((3, 3, 3), (1, 1, 1)),
    ],
)
def test_the_pool_of_slices_is_a_max_pool(shape, kernel, stride):
    x = torch.rand(2, 3, *shape, generator=torch.Generator().manual_seed(0))
    expected = F.max_pool3d(F.pad(x, same_padding(shape, kernel, stride)), kernel, stride)
    assert torch.equal(pool(x, kernel, stride), expected)


def test_a_strided_unit_sums_what_lies_under_its_kernel_and_rectifies():
    weights = {"u.weight": torch.ones(2, 1, 1, 1, 3), "u.bias": torch.tensor([0.5, -100.0])}
    x = torch.arange(1.0, 7.0).view(1, 1, 1, 1, 6)
    out = Unit(weights, "u", (1, 1, 2))(x)
    assert out[0, 0].flatten().tolist() == [1 + 2 + 3 + 0.5, 3 + 4 + 5 + 0.5, 5 + 6 + 0.5]
    assert out[0, 1].flatten().tolist() == [0, 0, 0]


def test_videos_are_scaled_to_the_range_and_size_of_the_network():
    videos = torch.zeros(2, 9, 3, 8, 8, dtype=torch.uint8)
    videos[1, 4, 2] = 255
    x = prepare(videos)
    assert x.shape == (2, 3, 9, 224, 224)
    torch.testing.assert_close(x[0], torch.full_like(x[0], -1))
    torch.testing.assert_close(x[1, 2, 4], torch.ones(224, 224))


def test_features_do_not_depend_on_the_batch_they_are_computed_in():
    network = I3D(tiny_weights())
    videos = torch.cat([waves(), waves().flip(1), 255 - waves()])
    found = video_features(videos, network, batch_size=2)
    assert found.shape == (3, 400)
    torch.testing.assert_close(found[2:], video_features(videos[2:], network))
    assert (found[0] - found[1]).abs().max() > 1e-4


def test_videos_that_are_too_short_are_refused():
    with pytest.raises(ValueError, match="9 frames"):
        video_features(waves(frames=8), I3D(tiny_weights()))


@pytest.mark.skipif(not is_installed("i3d"), reason="needs the cached I3D weights")
def test_the_cached_network_gives_the_published_ones_logits():
    """Computed with the published JAX network; kernels kept in half precision cost 1e-3."""
    logits = video_features(waves())[0]
    published = torch.tensor([0.3234, 6.2513, 5.0896, 4.4948, 1.0879, 7.9699, 0.1583, -7.7994])
    torch.testing.assert_close(logits[:8], published, atol=0.05, rtol=0)
    assert logits.norm().item() == pytest.approx(92.8193, rel=1e-3) and logits.argmax() == 327


def atari_clips(game, seed):
    """Clips of random play, four emulated frames a step, 64 x 64."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path(game))
    actions, rng = ale.getMinimalActionSet(), np.random.default_rng(seed)

    def step():
        action = actions[rng.integers(len(actions))]
        for _ in range(4):
            ale.act(action)

    clips = []
    for _ in range(CLIPS):
        ale.reset_game()
        for _ in range(int(rng.integers(30, 90))):
            step()
        frames = []
        for _ in range(FRAMES):
            step()
            frames.append(ale.getScreenRGB())
        x = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float()
        clips.append(F.interpolate(x, size=(64, 64), mode="bilinear", antialias=True))
    return torch.stack(clips).round().byte()


@pytest.mark.network
@pytest.mark.slow
def test_the_real_network_orders_degraded_atari_clips(tmp_path, monkeypatch):
    """other seed < shuffled in time < frozen < light noise < blur < heavy noise < another game."""
    monkeypatch.setenv("HORIZON_CACHE", str(tmp_path))
    install("i3d")
    network = I3D(load_weights("i3d"))
    rng, x = torch.Generator().manual_seed(0), atari_clips("gopher", 0)

    def noisy(level):
        noise = torch.randn(x.shape, generator=rng)
        return (x + 255 * level * noise).clamp(0, 255).byte()

    degraded = {
        "other seed": atari_clips("gopher", 1),
        "shuffled": x[:, torch.randperm(FRAMES, generator=rng)],
        "frozen": x[:, :1].expand_as(x),
        "light noise": noisy(0.05),
        "blur": F.avg_pool2d(x.flatten(1, 2).float(), 5, 1, 2, count_include_pad=False)
        .byte()
        .view_as(x),
        "heavy noise": noisy(0.1),
        "another game": atari_clips("boxing", 2),
    }
    # Two single-threaded workers: twice as fast as one, and no spinning on a busy machine.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(2) as workers:
        sets = {"reference": x} | degraded
        jobs = {
            k: workers.submit(video_features, v, network, batch_size=1) for k, v in sets.items()
        }
        features = {name: job.result() for name, job in jobs.items()}
    torch.set_num_threads(threads)
    reference = features.pop("reference")
    distances = {k: frechet_distance(v, reference) for k, v in features.items()}
    assert list(distances.values()) == sorted(distances.values()), distances
    assert frechet_distance(reference, reference) < 1e-6
