"""What looks wrong with a run is said; a healthy run has no findings."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import horizon_imagination.play as play
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.diagnosis import diagnose
from horizon_imagination.run.integrity import disk_findings
from horizon_imagination.run.needs import Estimated, read_estimate, write_estimate
from horizon_imagination.run.read import Run, load_run

GOOD = {
    "env/return": 0.5,
    "env/episodes": 8.0,
    "evaluation/return": 0.5,
    "tokenizer/reconstruction": 0.01,
    "world_model/action_gap": 0.4,
    "world_model/unheeded_changes": 0.1,
    "world_model/imagined_reward": 0.48,
    "world_model/real_reward": 0.5,
    "world_model/read_reward": 0.49,
    "world_model/denoiser_grad_norm": 1.0,
    "fresh/read_reward": 0.45,
    "fresh/real_reward": 0.5,
    "controller/actor": 0.1,
    "controller/entropy": 0.3,
    "controller/state_action_information": 0.5,
    "controller/dreamed_reward": 2.0,
    "controller/replayed_reward": 1.9,
    "controller/value": 1.5,
    "controller/imagined_return": 2.0,
    "controller/imagined_length": 6.0,
    "time/controller": 2.0,
}
EPOCHS = 40


def run_of(config=PRESETS["demo"][1], **changes):
    """Forty epochs; a change is a value for all of them, or a function of the epoch."""
    metrics = []
    for epoch in range(EPOCHS):
        entry = {"epoch": epoch, "env/steps": 100 * (epoch + 1)} | GOOD
        entry["tokenizer/reconstruction"] = 1 / (1 + epoch)
        if epoch <= 35:
            entry["env/return"] = -0.7
        for name, value in changes.items():
            key = name.replace("__", "/")
            entry[key] = value(epoch) if callable(value) else value
        metrics.append({key: value for key, value in entry.items() if value is not None})
    return Run(Path("runs/x"), config, history=metrics)


def names(run, **expected):
    return [finding.name for finding in diagnose(run, expected)]


def test_a_healthy_run_has_no_findings():
    assert names(run_of(), controller=1.9) == []


@pytest.mark.parametrize("agent", ["catch", "fog"])
def test_the_agents_that_come_along_have_healthy_metrics(agent):
    folder = Path(play.__file__).parent / "agents" / agent
    assert diagnose(load_run(folder)) == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("entropy collapse", {"controller__entropy": lambda e: 1.0 if e < 5 else 0.001}),
        ("blind policy", {"controller__state_action_information": 1e-5}),
        ("ignored actions", {"world_model__action_gap": 0.001}),
        ("dreams that underpay", {"world_model__imagined_reward": 0.1}),
        ("dreams that overpay", {"world_model__imagined_reward": 1.4}),
        (
            "dreams that do not end",
            {
                "world_model__imagined_end": 0.01,
                "world_model__real_end": 0.05,
                "world_model__read_end": 0.05,
            },
        ),
        ("paid for changing actions", {"controller__replayed_reward": 0.4}),
        ("unheeded changes", {"world_model__unheeded_changes": 0.7}),
        ("memorised rewards", {"fresh__read_reward": 0.05}),
        ("value explosion", {"controller__value": 500.0}),
        ("bursting gradients", {"world_model__denoiser_grad_norm": lambda e: 1.0 + 1e3 * (e > 38)}),
        ("tokenizer collapse", {"tokenizer__reconstruction": 0.4}),
        ("starved replay", {"env__steps": 500}),
        ("no episode ended", {"env__episodes": 0.0}),
        ("failing environment", {"env__failures": 2.0}),
        ("no better than random play", {"evaluation__return": -0.9}),
        ("slowing down", {"time__controller": lambda e: 1.0 if e < 30 else 3.0}),
    ],
)
def test_each_ailment_is_found_by_itself(name, changes):
    assert names(run_of(**changes)) == [name]


def test_what_brings_ends_back_depends_on_who_misses_them():
    """The frames lack them, or the reward model does not know them."""

    def tried(read, replay=None, **world_model):
        config = replaced(PRESETS["demo"][1], world_model=world_model, replay=replay or {})
        ends = {"imagined_end": 0.01, "real_end": 0.05, "read_end": read}
        run = run_of(config, **{f"world_model__{x}": y for x, y in ends.items()})
        return diagnose(run)[0].advice

    assert tried(0.01).startswith("--replay.min-segment 2 or")
    assert tried(0.05, change_every=2).startswith("--world-model.change-by effect or")
    assert tried(0.05, change_every=0).startswith("a larger --imagination.budget or")
    on = {"min_segment": 2, "end_share": 0.15}
    assert tried(0.01, on) == "more data in a new run"
    assert tried(0.05, on, change_by="effect") == "a larger --imagination.budget in a new run"


@pytest.mark.parametrize("changes", [{"controller__replayed_reward": 0.4},
                                     {"world_model__unheeded_changes": 0.7}])  # fmt: skip
def test_nobody_is_told_to_switch_on_what_is_on(changes):
    config = PRESETS["demo"][1]
    off = replaced(config, world_model={"change_every": 0})
    (taught,), (untaught,) = (diagnose(run_of(x, **changes)) for x in (config, off))
    assert "change-every" in untaught.advice and "change-every" not in taught.advice


def test_a_world_without_rewards_is_told():
    nothing = {"world_model__imagined_reward": 0.0, "world_model__real_reward": 0.0}
    nothing |= {"world_model__read_reward": 0.0, "fresh__read_reward": 0.0, "env__return": 0.0}
    nothing |= {"fresh__real_reward": 0.0, "evaluation__return": 0.1}
    assert names(run_of(**nothing)) == ["no rewards"]


def test_dreams_that_underpay_say_which_network_is_at_fault():
    frames = diagnose(run_of(world_model__imagined_reward=0.1))[0]
    assert "frames lack something" in frames.meaning and "0.1" in frames.figures
    wrong = {"world_model__imagined_reward": 0.1, "world_model__read_reward": 0.1}
    assert "reward model" in diagnose(run_of(**wrong))[0].meaning


def test_missing_ends_say_which_network_misses_them_and_rare_ones_are_not_judged():
    real, few = {"world_model__real_end": 0.05}, {"world_model__imagined_end": 0.01}
    seen, missed = {"world_model__read_end": 0.05}, {"world_model__read_end": 0.01}
    assert "frames lack" in diagnose(run_of(**real, **few, **seen))[0].meaning
    assert "misses ends" in diagnose(run_of(**real, **few, **missed))[0].meaning
    assert names(run_of(**few, **seen, world_model__real_end=0.001)) == []
    assert names(run_of(**real, **seen, world_model__imagined_end=0.04)) == []


def test_a_stage_that_is_slower_than_estimated_is_told_with_both_times():
    (finding,) = diagnose(run_of(), {"controller": 0.5})
    assert finding.name == "slower than estimated" and "time/controller" in finding.line()


def test_stages_of_milliseconds_are_not_judged():
    assert names(run_of(time__controller=0.3), controller=0.01) == []


def test_a_run_whose_learners_overlap_is_found_slow_too():
    slower = {"time__together": lambda e: 1.0 if e < 30 else 3.0}
    assert names(run_of(time__controller=None, **slower)) == ["slowing down"]


def test_early_epochs_with_more_steps_are_not_slow():
    own = PRESETS["demo"][1].controller.learner
    early = replace(own, early_until=EPOCHS, early_steps=3 * own.steps_per_epoch)
    run = run_of(replaced(PRESETS["demo"][1], controller={"learner": early}), time__controller=3.0)
    assert diagnose(run, {"controller": 1.2}) == []
    assert names(run, controller=0.4) == ["slower than estimated"]


def test_a_run_that_slows_down_after_its_early_epochs_is_found():
    own = PRESETS["demo"][1].controller.learner
    early = replace(own, first_epoch=0, early_until=30, early_steps=3 * own.steps_per_epoch)
    config = replaced(PRESETS["demo"][1], controller={"learner": early})
    assert names(run_of(config, time__controller=3.0)) == ["slowing down"]


def test_an_estimate_of_what_is_no_learner_is_compared_too():
    assert names(run_of(time__collect=2.0), collect=0.5) == ["slower than estimated"]


def test_a_short_run_is_not_judged():
    few = run_of(controller__state_action_information=0.0, world_model__action_gap=0.0)
    assert diagnose(Run(few.folder, few.config, history=few.history[:5])) == []


def test_too_little_disk_is_told_before_it_is_full(tmp_path):
    run = Run(tmp_path, replaced(PRESETS["debug"][1], training={"epochs": 9}))
    assert list(disk_findings(run, 1e3)) == []
    (finding,) = disk_findings(run, 1e18)
    assert finding.name == "too little disk" and "free" in finding.figures


def test_the_estimate_of_a_run_is_kept(tmp_path, trained):
    write_estimate(tmp_path, Estimated({"controller": 1.5}, 2e6))
    assert read_estimate(tmp_path) == Estimated({"controller": 1.5}, 2e6)
    assert read_estimate(tmp_path / "old") == Estimated()
    kept = read_estimate(trained)
    assert kept.disk_bytes > 1e5 and kept.epoch_seconds.keys() >= {"tokenizer", "controller"}


@pytest.fixture
def damaged(trained, tmp_path):
    """A copy that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def without_speed(folder):
    """The machine that runs the tests may be busy."""
    (folder / "estimate.json").unlink(missing_ok=True)


def test_the_command_says_that_nothing_is_wrong(damaged, command):
    without_speed(damaged)
    status, said, _ = command(f"doctor {damaged}")
    assert (status, said) == (0, f"{damaged}: nothing looks wrong (4 epochs, 140 steps)\n")


def test_damage_to_the_folder_is_found_and_printed_as_json(damaged, command):
    without_speed(damaged)
    (damaged / "replay" / "marks.u8").write_bytes(b"\x00" * 3)
    weights = next(damaged.glob("checkpoints/epoch-*/weights.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])
    lines = (damaged / "metrics.jsonl").read_text().splitlines()
    lines[2] = '{"epoch": 2, "controller/value": null}'
    (damaged / "metrics.jsonl").write_text("\n".join(lines[1:]))
    (damaged / "checkpoints" / "epoch-000009.tmp").mkdir()
    status, said, _ = command(f"doctor {damaged} --json")
    found = json.loads(said)
    names = {finding["name"] for finding in found["findings"]}
    assert status == 1 and not found["healthy"]
    assert names == {
        *("damaged snapshot", "missing metrics", "values that are not finite"),
        *("damaged replay", "leftovers"),
    }


def test_what_is_no_run_is_refused(tmp_path, command):
    status, _, err = command(f"doctor {tmp_path}")
    assert status == 2 and "is no run" in err
