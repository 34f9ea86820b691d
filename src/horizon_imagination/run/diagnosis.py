"""What looks wrong in the metrics of a run: pure functions from a `Run` to findings.

The thresholds are coarse on purpose: a finding is worth a look, and a healthy run has none.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean, median

from horizon_imagination.run.display import (
    ACTION_GAP,
    INFORMATION,
    LEAST_GAP,
    LEAST_INFORMATION,
    PATIENCE,
)
from horizon_imagination.run.read import Run
from horizon_imagination.wording import number

LATELY = 10
"""Epochs over which a metric is averaged."""
COLLAPSED = 0.02
"""Share of its first value to which entropy may fall."""
UNPAID = 0.5
"""Share of the real reward by which the imagined one may be off."""
UNHEEDED = 0.5
"""Share of a first action's effect that may stay in a frame which another action ends."""
BEYOND = 3.0
"""How many times the greatest possible value a critic may claim."""
BURST = 100.0
"""How many times its median a gradient norm may reach."""
SLOWER = 2.0
"""How many times slower than estimated, or than before, a run may be."""
RARE = 0.005
"""Share of segments that must end before missing ends can be told from chance."""
SHORT = 0.5
"""Seconds of an epoch below which a stage is not judged."""


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong."""

    name: str
    figures: str
    """What was measured."""
    meaning: str
    """What it usually means."""
    advice: str
    """What to try."""

    def line(self) -> str:
        """For people."""
        return f"{self.name}: {self.figures}. {self.meaning}. Try: {self.advice}."


def lately(run: Run, key: str) -> float | None:
    """The mean of a metric over its last epochs."""
    values = _values(run, key)[-LATELY:]
    return mean(values) if values else None


def _values(run: Run, key: str) -> list[float]:
    return [float(entry[key]) for entry in run.history if key in entry]


def entropy_collapse(run: Run) -> Iterator[Finding]:
    """The policy has settled on one action."""
    values, now = _values(run, "controller/entropy"), lately(run, "controller/entropy")
    if len(values) < PATIENCE or now is None or now >= COLLAPSED * max(values):
        return
    yield Finding(
        "entropy collapse",
        f"controller/entropy fell from {number(max(values), 3)} to {number(now, 3)} nats",
        "the policy takes one action almost surely and explores no more",
        "a larger --controller.entropy-weight in a new run, or an earlier snapshot",
    )


def blind_policy(run: Run) -> Iterator[Finding]:
    """The policy acts alike in every state."""
    now = lately(run, INFORMATION)
    if len(_values(run, INFORMATION)) < PATIENCE or now is None or now >= LEAST_INFORMATION:
        return
    yield Finding(
        "blind policy",
        f"{INFORMATION} is {number(now, 2)} nats after {PATIENCE} epochs or more",
        "the policy does the same whatever it sees",
        "--controller.network.normalize, a tokenizer that was trained longer, or "
        f"horizon study controller {run.folder}",
    )


def ignored_actions(run: Run) -> Iterator[Finding]:
    """The denoiser does not use the action."""
    gap = lately(run, ACTION_GAP)
    learning = len(_values(run, "controller/actor")) >= PATIENCE
    if gap is None or not learning or gap >= LEAST_GAP:
        return
    yield Finding(
        "ignored actions",
        f"{ACTION_GAP} is {number(gap, 2)}, expected {LEAST_GAP} or more",
        "actions change nothing in imagination, so that no policy can learn there",
        "a later --controller.learner.first-epoch, --denoiser.action-tokens, or more collected "
        "steps with different actions",
    )


def dreams_that_pay_wrong(run: Run) -> Iterator[Finding]:
    """Imagined rewards that differ from those of the same real segments."""
    names = ("imagined_reward", "real_reward", "read_reward")
    imagined, real, read = (lately(run, f"world_model/{name}") for name in names)
    enough = len(_values(run, "world_model/imagined_reward")) >= PATIENCE
    if imagined is None or real is None or not enough:
        return
    scale = max(abs(real), abs(imagined))
    if scale < 1e-3 or abs(imagined - real) <= UNPAID * scale:
        return
    at_fault, advice = "the imagined frames lack something", "training the world model longer"
    if read is not None and abs(read - real) > UNPAID * scale:
        at_fault = "the reward model is wrong on real frames too"
        advice = "a smaller --world-model.reward-rate, or --reward.readout categories"
    yield Finding(
        "dreams that underpay" if imagined < real else "dreams that overpay",
        f"imagined reward {number(imagined, 3)}, real {number(real, 3)} of the same segments"
        + ("" if read is None else f", read from real frames {number(read, 3)}"),
        at_fault,
        advice,
    )


def dreams_that_do_not_end(run: Run) -> Iterator[Finding]:
    """Imagined ends that are missing where the same real segments ended."""
    names = ("imagined_end", "real_end", "read_end")
    imagined, real, read = (lately(run, f"world_model/{name}") for name in names)
    enough = len(_values(run, "world_model/imagined_end")) >= PATIENCE
    if imagined is None or real is None or read is None or not enough:
        return
    if real < RARE or imagined >= (1 - UNPAID) * real:
        return
    misread, model, replay = read < (1 - UNPAID) * real, run.config.world_model, run.config.replay
    by_frame = model.change_every > 0 and model.change_by == "frame"
    shown = "--replay.min-segment 2" if replay.min_segment > 2 else "more data"
    kept = "--world-model.change-by effect" if by_frame else "a larger --imagination.budget"
    more = "" if replay.end_share else " or --replay.end-share 0.15"
    yield Finding(
        "dreams that do not end",
        f"{number(100 * imagined, 2)} % of dreams end, {number(100 * real, 2)} % of the same real "
        f"segments, {number(100 * read, 2)} % as read from real frames",
        "the policy does not learn what to avoid; "
        + ("the reward model misses ends" if misread else "imagined frames lack what ends them"),
        f"{shown if misread else kept}{more} in a new run",
    )


def paid_for_changing_actions(run: Run) -> Iterator[Finding]:
    """Dreams that pay only while actions change in frames that are not clean yet."""
    dreamed, replayed = (
        lately(run, f"controller/{name}") for name in ("dreamed_reward", "replayed_reward")
    )
    enough = len(_values(run, "controller/replayed_reward")) >= PATIENCE
    if dreamed is None or replayed is None or not enough:
        return
    if max(abs(dreamed), abs(replayed)) < 1e-3 or dreamed - replayed <= UNPAID * abs(dreamed):
        return
    yield Finding(
        "paid for changing actions",
        f"dreams pay {number(dreamed, 3)}; their last actions, given from the start, "
        f"{number(replayed, 3)}",
        "the policy changes actions while frames are denoised and imagines rewards that no action "
        "earns",
        _heed(run),
    )


def unheeded_changes(run: Run) -> Iterator[Finding]:
    """Frames that show what an action led to that is no longer taken."""
    share, gap = lately(run, "world_model/unheeded_changes"), lately(run, ACTION_GAP)
    enough = len(_values(run, "world_model/unheeded_changes")) >= PATIENCE
    if share is None or gap is None or not enough or gap < LEAST_GAP or share <= UNHEEDED:
        return
    yield Finding(
        "unheeded changes",
        f"where an action changes while its frame is denoised, {number(100 * share, 3)} % of what "
        "the first one led to stays",
        "dreams do not show what a policy does in the end, and may pay for what it did before",
        _heed(run),
    )


def _heed(run: Run) -> str:
    """What to try where changed actions do harm, other than what the run has."""
    taught = run.config.world_model.change_every > 0
    flag = "--controller.rewarded replay" if taught else "--world-model.change-every 2"
    return f"{flag} in a new run, or --imagination.decay-horizon 1"


def memorised_rewards(run: Run) -> Iterator[Finding]:
    """A reward model that is right on what it has learned and wrong on new steps."""
    names = ("fresh/read_reward", "fresh/real_reward", "world_model/read_reward")
    fresh, real, known = (lately(run, name) for name in names)
    old = lately(run, "world_model/real_reward")
    if fresh is None or real is None or known is None or old is None:
        return
    if len(_values(run, "fresh/read_reward")) < PATIENCE or max(abs(real), abs(old)) < 1e-3:
        return
    right = abs(known - old) <= 0.2 * max(abs(old), abs(known))
    if right and abs(fresh - real) > UNPAID * max(abs(real), abs(fresh)):
        yield Finding(
            "memorised rewards",
            f"read {number(fresh, 3)} of {number(real, 3)} on new steps, {number(known, 3)} of "
            f"{number(old, 3)} on those learned from",
            "the reward model remembers frames instead of recognising what is rewarded",
            "--world-model.reward-weight-decay, --world-model.reward-noise, or more data",
        )


def value_explosion(run: Run) -> Iterator[Finding]:
    """The critic claims more than any policy could earn."""
    discount, value = run.config.controller.discount, lately(run, "controller/value")
    lengths = {"controller/imagined_return", "controller/imagined_length"}
    paid = [
        abs(entry["controller/imagined_return"]) / max(entry["controller/imagined_length"], 1.0)
        for entry in run.history
        if lengths <= entry.keys()
    ]
    if value is None or not paid or discount >= 1:
        return
    most = max(paid) / (1 - discount)
    if abs(value) > BEYOND * most + 1:
        yield Finding(
            "value explosion",
            f"controller/value is {number(value, 3)}; imagined rewards allow {number(most, 3)}",
            "the critic feeds on its own estimates",
            "a smaller --controller.learner.learning-rate or --controller.discount, from an "
            "earlier snapshot",
        )


def bursting_gradients(run: Run) -> Iterator[Finding]:
    """Gradient norms far above what they were."""
    for key in sorted({k for entry in run.history for k in entry if k.endswith("_grad_norm")}):
        values = _values(run, key)
        usual, now = median(values), values[-1]
        if len(values) >= PATIENCE and usual > 0 and now > BURST * usual:
            yield Finding(
                "bursting gradients",
                f"{key} is {number(now, 3)}, its median {number(usual, 3)}",
                "training is about to diverge, although gradients are clipped",
                "a smaller learning rate from the latest snapshot on",
            )


def tokenizer_collapse(run: Run) -> Iterator[Finding]:
    """Reconstructions that do not get better."""
    values = _values(run, "tokenizer/reconstruction")
    if len(values) < PATIENCE or min(values[-3:]) < 0.8 * values[0] or values[0] == 0:
        return
    yield Finding(
        "tokenizer collapse",
        f"tokenizer/reconstruction was {number(values[0], 3)} and is {number(values[-1], 3)} after "
        f"{len(values)} epochs",
        "latents carry nothing of the frame, and all that is learned from them fails",
        "a smaller --tokenizer.learner.learning-rate, more --tokenizer.latent-channels, or look "
        "at the reconstructions with horizon report",
    )


def starvation(run: Run) -> Iterator[Finding]:
    """Nothing new is collected, nothing ends, or nothing is rewarded."""
    steps = _values(run, "env/steps")
    if run.offline is None and run.config.training.collect_steps and len(steps) >= PATIENCE:
        if steps[-1] <= steps[-PATIENCE]:
            yield Finding(
                "starved replay",
                f"env/steps stays at {steps[-1]:,.0f} for {PATIENCE} epochs",
                "no experience is collected",
                "horizon envs --check with the run's environment",
            )
        elif not any(_values(run, "env/episodes") or [1.0]):
            yield Finding(
                "no episode ended",
                f"{steps[-1]:,.0f} steps in {len(steps)} epochs, env/episodes is 0 in all",
                "returns cannot be measured, and the replay holds one episode",
                "--env.time-limit",
            )
    returns = _values(run, "env/return")
    rewards = _values(run, "world_model/real_reward")
    if len(returns) >= PATIENCE and not any(returns) and not any(rewards):
        yield Finding(
            "no rewards",
            f"env/return is 0 in all {len(returns)} epochs with episodes",
            "random play never meets a reward, so that there is nothing to learn from",
            "more --training.initial-steps, an easier world, or data of a player who finds some",
        )


def failing_world(run: Run) -> Iterator[Finding]:
    """An environment that fails again and again."""
    recent = run.history[-LATELY:]
    failures = sum(entry.get("env/failures", 0.0) for entry in recent)
    episodes = sum(entry.get("env/episodes", 0.0) for entry in recent)
    if failures > max(2.0, 0.1 * episodes):
        yield Finding(
            "failing environment",
            f"{failures:.0f} failures beside {episodes:.0f} episodes in {len(recent)} epochs",
            "episodes are cut short, which teaches the agent the failures",
            "horizon envs --check with the run's environment, and a longer --env.step-timeout",
        )


def no_better_than_random(run: Run) -> Iterator[Finding]:
    """A policy that has learned for long and earns what random play earns."""
    random, returns = run.random_play(), _values(run, "evaluation/return")
    returns = returns or _values(run, "env/return")
    learned = len(_values(run, "controller/actor"))
    if random is None or learned < 2 * PATIENCE or len(returns) < 3:
        return
    best, score = max(returns[-LATELY:]), random[0]
    if best <= score:
        yield Finding(
            "no better than random play",
            f"the best return lately is {number(best, 3)}, random play earned {number(score, 3)} "
            f"({random[1]} episodes)",
            "the policy has not learned the task",
            f"horizon study controller {run.folder}, which tells whether the world model or the "
            "controller is at fault",
        )


def slow(run: Run, expected: Mapping[str, float]) -> Iterator[Finding]:
    """Stages that take longer than estimated, or a run that slows down.

    `expected` are seconds of an epoch by stage, as estimated before the run.
    """
    for name, seconds in expected.items():
        values = _seconds(run, name)[-LATELY:]
        lately = median(values) if len(values) >= 3 else 0.0
        if lately > max(SHORT, SLOWER * seconds) and seconds > 0:
            yield Finding(
                "slower than estimated",
                f"time/{name} is {number(lately, 2)} s an epoch, estimated {number(seconds, 2)} s",
                "other programs share the machine, or it throttles",
                "horizon bench, and another number of --runtime.threads",
            )
    stages = (_seconds(run, name) for name in ("together", "controller", "world_model"))
    times = next((found for found in stages if len(found) >= 3 * LATELY), [0.0, 0.0])
    lately, before = median(times[-LATELY:]), median(times[:-LATELY] or times)
    if lately > max(SHORT, SLOWER * before):
        yield Finding(
            "slowing down",
            f"an epoch of the last learner takes {number(lately, 2)} s, before "
            f"{number(before, 2)} s",
            "the machine is busier than it was",
            "look for other programs; the same command resumes the run elsewhere",
        )


def _seconds(run: Run, name: str) -> list[float]:
    """How long a stage took in its epochs; a learner's early epochs as if they had the steps of
    later ones."""
    cfg, key = run.config, f"time/{name}"
    learners = {x: getattr(cfg, x).learner for x in ("tokenizer", "world_model", "controller")}
    learners["together"] = cfg.controller.learner  # its steps are the controller's
    if name not in learners:
        return _values(run, key)
    own = learners[name]
    each = [(float(x[key]), own.steps_in(x["epoch"])) for x in run.history if key in x]
    return [seconds * (own.steps_per_epoch / steps if steps else 1) for seconds, steps in each]


RULES: tuple[Callable[[Run], Iterator[Finding]], ...] = (
    entropy_collapse,
    blind_policy,
    ignored_actions,
    dreams_that_pay_wrong,
    dreams_that_do_not_end,
    paid_for_changing_actions,
    unheeded_changes,
    memorised_rewards,
    value_explosion,
    bursting_gradients,
    tokenizer_collapse,
    starvation,
    failing_world,
    no_better_than_random,
)


def diagnose(run: Run, expected: Mapping[str, float] | None = None) -> list[Finding]:
    """Everything that looks wrong in the metrics of a run."""
    found = [finding for rule in RULES for finding in rule(run)]
    return found + list(slow(run, expected or {}))
