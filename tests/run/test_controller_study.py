"""`horizon study controller`: trajectories that the environment plays, and what comes of them."""

import json

import gymnasium
import numpy as np
import pytest
import torch
from einops import rearrange

from horizon_imagination.actions import Box
from horizon_imagination.agent import Agent
from horizon_imagination.cli.studies import controller_main as main
from horizon_imagination.data import Replay, Store
from horizon_imagination.engine.dream import left_padded
from horizon_imagination.envs import make_env
from horizon_imagination.envs.state import restore
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS
from horizon_imagination.returns import until_first_end
from horizon_imagination.snapshots import snapshots
from horizon_imagination.studies.controller import PlayedLoss, Remembering, played_config


@pytest.fixture
def setting(trained, tmp_path):
    """A loss over catch, thirty steps of random play, and contexts of them."""
    agent = Agent.load(trained, "cpu")
    config = played_config(agent.config, agent.config.controller)
    env = Remembering(make_env(config.env, seed=0))
    store = Store.create(tmp_path / "replay", (3, 32, 32), 3, "catch")
    rng = np.random.default_rng(0)
    for _ in range(30):
        if not store.is_open:
            store.begin(env.reset()[0].transpose(2, 0, 1).copy())
        action = int(rng.integers(3))
        frame, reward, terminated, truncated, _ = env.step(action)
        store.add(action, reward, terminated, truncated, frame.transpose(2, 0, 1).copy())
    replay = Replay(store, config.replay)
    rows = replay.context_rows(6, 3, torch.Generator().manual_seed(0))
    frames = replay.gather(*rows).frames
    z = agent.encode(rearrange(frames, "b t c h w -> (b t) c h w")).unflatten(0, frames.shape[:2])
    loss = PlayedLoss(
        agent.actor, agent.critic, agent.world_model, agent.schedule, config.controller,
        config.imagination, torch.Generator().manual_seed(1), agent=agent, states=env.states,
        worlds=[make_env(config.env, seed=i) for i in range(6)],
        rows=rows.rows.amax(1).tolist(),
    )  # fmt: skip
    return loss, left_padded(z, replay.gather_steps(*rows).action, rows.mask), store


def test_every_frame_shown_has_its_state(setting):
    loss, _, store = setting
    world = loss.worlds[0]
    assert len(loss.states) == store.num_frames
    for row in (0, 5, store.num_frames - 1):
        restore(world, loss.states[row])
        assert np.array_equal(world.unwrapped.render().transpose(2, 0, 1), store.frames[row])


def test_the_trajectory_is_what_the_environment_does_with_these_actions(setting):
    loss, start, _ = setting
    imagined = loss.imagine(start)
    outcome = loss.judge(start, imagined)
    horizon = loss.imagination.horizon
    assert imagined.z.shape[:3] == (len(loss.schedule), 6, horizon)
    assert torch.equal(imagined.actions[0], imagined.actions[-1])
    for i, row in enumerate(loss.rows):
        world = loss.worlds[i]
        restore(world, loss.states[row])
        for t in range(horizon):
            frame, reward, terminated, truncated, _ = world.step(int(imagined.actions[-1][i, t]))
            z = loss.agent.encode(torch.from_numpy(frame.transpose(2, 0, 1).copy())[None])[0]
            torch.testing.assert_close(imagined.z[-1][i, t], z, atol=1e-5, rtol=1e-5)
            assert outcome.reward[i, t] == reward and bool(outcome.terminated[i, t]) == terminated
            if terminated or truncated:
                assert not outcome.reward[i, t + 1 :].any()  # nothing happens after the end
                break
    assert outcome.terminated.any()
    assert torch.equal(outcome.valid, until_first_end(outcome.terminated))


def test_the_loss_has_a_gradient_for_actor_and_critic(setting):
    loss, start, _ = setting
    terms = loss(start).terms
    sum(term.total / term.count for term in terms.values()).backward()
    for network in (loss.actor, loss.critic):
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_the_command_writes_lines_a_figure_and_json(trained, tmp_path, command):
    out = tmp_path / "study"
    line = f"study controller {trained} --epochs 2 --initial 40 --device cpu --out {out}"
    flags = "--controller.shared-encoder --controller.learner.micro-batches 2"
    status, said, _ = command(f"{line} {flags} --json")
    assert status == 0
    found = json.loads(said.splitlines()[-1])
    assert found["epochs"] == 2 and len(found["game"]) == len(found["dreams"]) == 2
    lines = [json.loads(text) for text in (out / "controller.jsonl").read_text().splitlines()]
    assert [x["epoch"] for x in lines] == [0, 1]
    assert lines[-1]["controller/imagined_return"] == found["game"][1]
    logged = [json.loads(text) for text in (trained / "metrics.jsonl").read_text().splitlines()]
    dreamed = [x["controller/imagined_return"] for x in logged if "controller/actor" in x]
    assert found["dreams"] == dreamed[:2]
    assert (out / "controller.png").stat().st_size > 1000
    assert lines[-1]["controller/state_action_information"] > -1e-6
    assert command(f"study controller {trained} --epochs 0")[0] == 2
    status, _, complaint = command(f"{line} --controller.learner.steps-per-epoch 0")
    assert status == 2 and "steps-per-epoch" in complaint


def test_a_snapshot_is_compared_with_its_run_and_a_file_with_nothing(trained, tmp_path, command):
    file = tmp_path / "one.safetensors"
    assert command(f"export {trained} --agent --out {file}")[0] == 0
    snapshot = snapshots(trained)[-1]
    for agent, dreams in ((snapshot, True), (file, False)):
        out = f"--out {tmp_path / 'study'} --device cpu --json"
        status, said, _ = command(f"study controller {agent} --epochs 1 --initial 40 {out}")
        assert status == 0 and ("dreams" in json.loads(said.splitlines()[-1])) == dreams


def test_an_interrupt_closes_the_replay_before_its_folder_goes(trained, tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(Store, "close", lambda self: order.append(self.folder.exists()))

    def interrupt(self, figures):
        raise KeyboardInterrupt

    monkeypatch.setattr("horizon_imagination.studies.controller.Report.add", interrupt)
    line = f"{trained} --epochs 2 --initial 40 --device cpu --out {tmp_path / 'study'}"
    with pytest.raises(KeyboardInterrupt):
        main(line.split())
    assert order and all(order)


@pytest.mark.parametrize("study", ["controller", "dreams"])
def test_a_world_whose_actions_have_no_numbers_is_one_line(study, tmp_path, command):
    """Both studies play actions by their number."""
    agent, out = tmp_path / "agent", tmp_path / "out"
    agent.mkdir()
    Agent(PRESETS["small-reach"][1], Box((-1.0,), (1.0,)), torch.device("cpu")).save(agent)
    status, _, said = command(f"study {study} {agent} --device cpu --out {out}")
    assert status == 2 and said.count("\n") == 1 and not out.exists()
    assert "small-reach has 1 number from -1 to 1 as actions; this study needs" in said


def test_an_environment_without_a_past_is_refused():
    class Fleeting(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **kwargs):
            return np.zeros((8, 8, 3), np.uint8), {}

    with pytest.raises(UsageError, match="cannot be put back into an earlier state"):
        Remembering(Fleeting()).reset()
