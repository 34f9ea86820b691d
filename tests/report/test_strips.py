"""Film strips show what they say: the store, the tokenizer, the world model."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from einops import rearrange

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.errors import UsageError
from horizon_imagination.imagination import imagine, recorded_actor
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.report.draw import (
    ON_ANY,
    PALE,
    SCREEN,
    cell_place,
    draw_pairs,
    draw_strip,
    encode_png,
    films_side_by_side,
    for_a_page,
    frame_size,
    picture,
    stacked,
    strip_film,
    strip_svg,
    write_video,
)
from horizon_imagination.report.pictures import key
from horizon_imagination.report.strips import (
    Row,
    Strip,
    act_out,
    imagine_scene,
    make_scene,
    moments,
    named_schedules,
    sampler_strips,
    scene,
    schedule_strips,
)
from horizon_imagination.schedules import pyramidal_schedule
from horizon_imagination.types import NO_ACTION


@pytest.fixture(scope="module")
def agent(run_folder) -> Agent:
    return Agent.load(run_folder, "cpu")


@pytest.fixture(scope="module")
def store(run_folder) -> Store:
    return Store.open(run_folder / "replay")


@pytest.fixture(scope="module")
def strips(agent, store):
    return sampler_strips(agent, make_scene(agent, store, count=2, horizon=5, seed=3), seed=3)


def test_moments_leave_the_whole_horizon_where_an_episode_has_it(store):
    rng = torch.Generator().manual_seed(0)
    for row in moments(store, 5, 50, rng):
        episode = np.searchsorted(store.starts, row, side="right") - 1
        assert store.ends[episode] - row > 5
    for row in moments(store, 99, 10, rng):
        assert row in store.starts, "a catch episode has 7 steps: only its start has the most"


def test_the_real_row_is_what_the_store_holds(agent, store):
    row = int(store.starts[2]) + 1
    around = scene(agent, store, [row], 4)
    for t in range(5):
        assert np.array_equal(around.frames[0, t].numpy(), store.frames[row + t])
        assert around.prev_actions[0, t] == store.action[row + t - 1]
        assert around.reward[0, t] == store.reward[row + t - 1]
    assert around.mask.all()


def test_nothing_is_shown_beyond_an_episode(agent, store):
    row = int(store.ends[0]) - 2
    around = scene(agent, store, [row, int(store.starts[0])], 5)
    assert around.mask.tolist()[0] == [True, True, False, False, False, False]
    assert not around.frames[0, 2:].any()
    assert around.prev_actions[0, 2:].tolist() == [NO_ACTION] * 4
    assert around.prev_actions[1, 0] == NO_ACTION
    assert around.start.mask[1].tolist() == [False] * 3 + [True]


def test_reconstructions_are_the_tokenizers(agent, strips):
    for strip in strips:
        real, decoded = strip.rows[0].frames, strip.rows[1].frames
        with torch.no_grad():
            z = agent.encode(real)
        expected = agent.decode(rearrange(z, "t c h w -> 1 t c h w"))[0]
        assert torch.equal(decoded, expected)
        assert not torch.equal(decoded, real)


def test_every_imagined_row_starts_with_the_real_context(strips):
    assert [row.label for row in strips[0].rows] == [
        "real",
        "reconstruction",
        "recorded actions",
        "others, then recorded",
        "naive actions",
        "naive, held once clean",
        "stable actions",
    ]
    for strip in strips:
        for row in strip.rows[2:]:
            assert torch.equal(row.frames[0], strip.rows[0].frames[0])
            assert row.frames.shape == strip.rows[0].frames.shape


def test_recorded_actions_are_those_of_the_real_row(strips):
    for strip in strips:
        assert torch.equal(strip.rows[0].prev_actions, strip.rows[2].prev_actions)


def test_the_recorded_row_agrees_with_the_plain_loop(agent, store):
    around = make_scene(agent, store, count=2, horizon=5, seed=0)
    schedule = agent.schedule
    fast = imagine_scene(agent, around, schedule, seed=7)
    actions = around.prev_actions[:, 1:]
    context, _ = around.start.world_model_context(1)

    def velocity(z, tau, prev_actions):
        return agent.imagination_denoiser.window(z, tau, prev_actions, cache=None, start=0)

    plain = imagine(
        velocity,
        recorded_actor(actions[:, 1:]),
        fast.z[0],
        schedule,
        context=context,
        first_action=actions[:, 0],
    )
    torch.testing.assert_close(fast.z[-1], plain.z[-1], atol=1e-5, rtol=1e-5)


def test_samplers_share_noise_and_first_action(agent, store):
    around = make_scene(agent, store, count=3, horizon=5, seed=0)
    schedule = agent.schedule
    noise = imagine_scene(agent, around, schedule, 11).z[0]
    first = act_out(agent, around, schedule, "stable", 11).actions[0, :, 0]
    for sampler in ("stable", "naive", "naive_held", "coupled"):
        imagined = act_out(agent, around, schedule, sampler, 11)
        assert torch.equal(imagined.z[0], noise)
        assert torch.equal(imagined.actions[-1, :, 0], first)


def test_schedules_differ_only_in_how_they_denoise(agent, store):
    around = make_scene(agent, store, count=1, horizon=5, seed=0)
    schedules = named_schedules(("horizon", "pyramidal"), 5, (5, 8), (1.0, 2.5))
    assert "pyramidal, budget 3" not in named_schedules(("full", "pyramidal"), 5, (3,), (1.0,))
    assert list(schedules) == [
        "budget 5, decay 1",
        "budget 5, decay 2.5",
        "budget 8, decay 1",
        "budget 8, decay 2.5",
        "pyramidal, budget 5",
        "pyramidal, budget 8",
    ]
    assert torch.equal(schedules["pyramidal, budget 8"], pyramidal_schedule(5, 8))
    (strip,) = schedule_strips(agent, around, schedules, seed=1)
    rows = {row.label: row for row in strip.rows}
    # A budget equal to the horizon leaves one step per frame: the same rows of the same matrix.
    assert torch.equal(rows["pyramidal, budget 5"].frames, rows["budget 5, decay 1"].frames)
    assert not torch.equal(rows["budget 8, decay 1"].frames, rows["budget 5, decay 1"].frames)
    for row in strip.rows[2:]:
        assert torch.equal(row.prev_actions, strip.rows[0].prev_actions)


def test_impossible_schedules_and_foreign_data_are_refused_in_one_line(agent, store, tmp_path):
    with pytest.raises(UsageError, match="decay_horizon must lie in"):
        named_schedules(("horizon",), 5, (5,), (9.0,))
    with pytest.raises(UsageError, match="pyramidal schedule needs a budget"):
        named_schedules(("pyramidal",), 5, (3,), (1.0,))
    other = Store.create(tmp_path / "other", (3, 16, 16), 3, "other")
    with pytest.raises(UsageError, match="the agent was trained on"):
        make_scene(agent, other, count=1, horizon=5, seed=0)


def test_the_picture_has_every_frame_in_its_place_and_a_blue_context(strips):
    strip = strips[0]
    image = draw_strip(strip)
    for line, row in enumerate(strip.rows):
        for column in range(6):
            if not row.shown[column]:
                continue
            top, left = cell_place(strip, line, column)
            expected = picture(row.frames[column])
            assert np.array_equal(image[top : top + 64, left : left + 64, :3], expected)
            is_blue = tuple(image[top - 1, left + 30]) == (*ON_ANY["context"], 255)
            assert is_blue == (column == 0)


def test_small_and_grey_frames_are_enlarged_to_colour():
    frame = torch.arange(16 * 16).view(1, 16, 16).to(torch.uint8)
    shown = picture(frame)
    assert shown.shape == (64, 64, 3)
    assert (shown[:4, 4:8] == 1).all()


def test_pairs_and_stacks_keep_sizes():
    frames = torch.zeros(5, 3, 64, 64, dtype=torch.uint8)
    pairs = draw_pairs(frames, frames)
    assert pairs.shape == (2 * 68, 5 * 68, 4)
    assert stacked([pairs, pairs[:, :100]]).shape == (2 * pairs.shape[0] + 14, 340, 4)
    assert encode_png(pairs).startswith(b"\x89PNG")


def test_a_film_has_a_frame_per_column_and_plays(strips, tmp_path):
    av = pytest.importorskip("av")
    films = films_side_by_side([strip_film(strip) for strip in strips])
    assert len(films) == 6 + 4
    left = cell_place(strips[0], 0, 0)[1]
    top = cell_place(strips[0], 0, 2)[0]
    assert np.array_equal(
        films[2][top : top + 64, left : left + 64], picture(strips[0].rows[0].frames[2])
    )
    write_video(tmp_path / "film.mp4", films)
    with av.open(str(tmp_path / "film.mp4")) as container:
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(decoded) == 10
    height, width = films[0].shape[:2]
    error = np.abs(decoded[2][:height, :width].astype(int) - films[2]).mean()
    assert error < 6
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def test_strips_have_no_paper_of_their_own_and_text_in_the_colours_of_the_page(strips):
    image = draw_strip(strips[0])
    assert image.shape[-1] == 4 and not image[0, :, 3].any(), "nothing is drawn on the edge"
    shares = image[..., 3] > 0
    assert 0.1 < shares.mean() < 0.9
    svg = strip_svg(strips[0])
    assert svg.count("<image") == 1 and "stable actions</tspan>" in svg and "fill=" not in svg
    assert min(int(size) for size in re.findall(r'font-size="(\d+)"', svg)) >= 12


def test_frames_after_the_end_are_pale_and_missing_ones_transparent():
    shown = torch.tensor([True, False, False])
    frames = torch.full((3, 3, 64, 64), 200, dtype=torch.uint8)
    frames[2] = 0
    row = Row("real", frames, torch.zeros(3).long(), torch.zeros(3), shown)
    strip = Strip([row], 1)
    opacity = [draw_strip(strip)[cell_place(strip, 0, c)][3] for c in range(3)]
    assert opacity == [255, PALE, 0]


def test_films_have_a_dark_ground(strips):
    assert tuple(strip_film(strips[0])[0][-1, 0]) == SCREEN


def test_no_moment_is_an_example_twice(store):
    everything = moments(store, 5, 10_000, torch.Generator().manual_seed(0))
    assert len(set(everything)) == len(everything), "fewer than were asked for, each of them once"
    for seed in range(20):
        rows = moments(store, 5, len(everything) - 1, torch.Generator().manual_seed(seed))
        assert len(set(rows)) == len(everything) - 1


def test_actions_are_called_what_their_world_calls_them(strips):
    assert strips[0].actions == ("left", "stay", "right")
    svg = strip_svg(strips[0])
    assert any(f">{name}</tspan>" in svg for name in strips[0].actions)
    assert not re.search(r">a\d</tspan>", svg)


def test_names_that_do_not_fit_below_a_frame_are_in_the_key(strips):
    long = dataclasses.replace(strips[0], actions=("LEFTFIRE", "NOOP", "RIGHTFIRE"))
    assert re.search(r">a\d</tspan>", strip_svg(long))
    assert "(a0 LEFTFIRE, a1 NOOP, a2 RIGHTFIRE)" in key(long)
    wide = dataclasses.replace(long, scale=4)
    assert "FIRE</tspan>" in strip_svg(wide) or "NOOP</tspan>" in strip_svg(wide)
    assert "a0" not in key(wide)


def test_frames_of_a_page_fill_it_by_a_whole_number(strips):
    wide = for_a_page(strips[0])
    assert wide.scale == 4 and frame_size(wide) == (128, 128)
    frames = torch.zeros(12, 3, 32, 32, dtype=torch.uint8)
    row = Row("real", frames, torch.zeros(12).long(), torch.zeros(12), torch.ones(12).bool())
    half = for_a_page(Strip([row], 1))
    assert frame_size(half) == (64, 64), "12 frames of 96 pixels do not fit"
    for strip in (wide, half):
        width = re.findall(r'width="(\d+)"', strip_svg(strip))[0]
        assert int(width) <= 1120


def test_frames_of_the_context_that_no_example_has_are_left_out(store):
    """As in fog, where a context of three frames begins with an episode's first one."""
    config = replaced(PRESETS["debug"][1], imagination={"context": 3})
    agent = Agent(config, store.action_space, torch.device("cpu"))
    first, second = int(store.starts[0]), int(store.starts[1]) + 1
    alone, both = (
        sampler_strips(agent, scene(agent, store, rows, 6), seed=0)
        for rows in ([first], [first, second])
    )
    assert alone[0].context == 1 and all(len(row.frames) == 7 for row in alone[0].rows)
    assert [strip.context for strip in both] == [2, 2]
    real = both[1].rows[0]
    assert np.array_equal(real.frames[:2], store.frames[second - 1 : second + 1])
    assert both[0].rows[0].shown.tolist()[:2] == [False, True]
