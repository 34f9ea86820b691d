"""All of `horizon bench`: peaks of the device, the stages of an epoch in every mode, growth."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.bench.clock import IN_A_ROW, Memory, captured, measure_ceilings
from horizon_imagination.bench.document import Document, DocumentWriter
from horizon_imagination.bench.plan import Plan, Point, fit_growth, sweeps, weight, weight_of_mode
from horizon_imagination.config import Config
from horizon_imagination.costs import Costs, Work, costs
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import autocast, uses_bfloat16
from horizon_imagination.engine import graph
from horizon_imagination.engine.dream import Start, imagine_recorded
from horizon_imagination.imagination import Imagined
from horizon_imagination.learn.batches import ReplayBatches
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import BLOCKS, LatentCache
from horizon_imagination.learn.learners import Learners, make_learners
from horizon_imagination.schedules import configured_schedule
from horizon_imagination.streams import Streams
from horizon_imagination.timing import CAPTURED, LAUNCHED, timed

EPISODE = 128


def random_store(folder: Path, config: Config, frames: int, num_actions: int) -> Store:
    """Episodes of random frames, actions and rewards."""
    rng = np.random.default_rng(0)
    shape = (config.env.frame_channels, config.env.size, config.env.size)
    store = Store.create(folder, shape, num_actions, "random")
    for row in range(frames):
        frame = rng.integers(0, 256, shape, dtype=np.uint8)
        if not store.is_open:
            store.begin(frame)
            continue
        last = row % EPISODE == EPISODE - 1 or row == frames - 1
        reward = float(rng.normal())
        store.add(int(rng.integers(num_actions)), reward, False, last, frame)
    return store


class Workbench:
    """Networks, replay, latents and random streams of a config."""

    def __init__(self, config: Config, store: Store, device: torch.device) -> None:
        self.store, self.device = store, device
        self.agent = Agent(config, store.action_space, device)
        self.replay = Replay(store, config.replay)
        self.latents = LatentCache(store, self.agent.encode, device)
        self.latents.refresh()

    def learners(self, config: Config, *, tokenizer: bool) -> Learners:
        """Fresh learners under a config that differs in its imagination alone."""
        self.agent.config, streams = config, Streams(config.seed, self.device)
        return make_learners(
            self.agent,
            ReplayBatches(self.agent, self.replay, self.latents, streams),
            streams,
            Guard(self.store.folder, every=25),
            frozen=frozenset() if tokenizer else frozenset({"tokenizer"}),
        )

    def loss(self, learners: Learners, config: Config) -> ControllerLoss:
        """The controller's loss under a config's imagination, with dice of its own.

        A captured graph and other work must not draw from one generator.
        """
        rng = torch.Generator(self.device).manual_seed(config.seed)
        cfg = config.imagination
        schedule = configured_schedule(cfg)
        return replace(learners.controller_loss, imagination=cfg, schedule=schedule, rng=rng)

    def precision(self) -> AbstractContextManager:
        """The precision context of the networks."""
        return autocast(self.agent.config.runtime, self.device)


Call = Callable[[], Any]


def imagination_call(bench: Workbench, learners: Learners, config: Config, batch: int) -> Call:
    """All of imagination with the policy: draws, first action, every window, every action."""
    loss = bench.loss(learners, config)

    def compute(start: Start) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad(), bench.precision():
            imagined = loss.imagine(start)
        return imagined.z[-1], imagined.actions[-1]

    return _repeatable(compute, learners.controller.sample(batch), loss, config)


def denoiser_call(bench: Workbench, learners: Learners, config: Config, batch: int) -> Call:
    """The same windows with the actions given."""
    loss = bench.loss(learners, config)
    start = learners.controller.sample(batch)
    noise = loss.sample_draws(start).noise
    actions = torch.zeros(noise.shape[:2], dtype=torch.long, device=noise.device)

    def compute(given: tuple[Start, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        start, noise, actions = given
        context, real = start.world_model_context(config.imagination.context)
        with bench.precision():
            imagined = imagine_recorded(
                loss.world, context, actions, noise, loss.schedule, real=real, record=True
            )
        return imagined.z[-1]

    return _repeatable(compute, (start, noise, actions), loss, config)


def rewards_call(bench: Workbench, learners: Learners, config: Config, batch: int) -> Call:
    """Rewards and ends of trajectories that were imagined before."""
    loss = bench.loss(learners, config)
    start = learners.controller.sample(batch)
    noise = loss.sample_draws(start).noise
    actions = torch.zeros(noise.shape[:2], dtype=torch.long, device=noise.device)

    def compute(given: tuple[Start, torch.Tensor, torch.Tensor]) -> Any:
        start, *clean_row = given
        with bench.precision():
            return loss.judge(start, Imagined(*clean_row))

    return _repeatable(compute, (start, noise[None], actions[None]), loss, config)


def encoding_call(bench: Workbench) -> Call:
    """Encode every frame of the replay, as after a change of the tokenizer."""

    def encode() -> None:
        bench.latents.forget()
        bench.latents.refresh()

    return encode


def _repeatable(
    compute: Callable[[Any], Any], batch: Any, loss: ControllerLoss, config: Config
) -> Call:
    if graph.wanted(config.runtime.graphs, loss.rng.device):
        compute = captured(compute, [loss.rng])
    return lambda: compute(batch)


LEARNERS = ("tokenizer", "world_model", "controller")


def measure(plan: Plan, recorder: DocumentWriter, device: torch.device) -> None:
    """Measure everything; results are in the recorder's document."""
    half = uses_bfloat16(plan.config.runtime, device)
    ceilings = measure_ceilings(device, torch.bfloat16 if half else torch.float32)
    recorder.document["ceilings"] = asdict(ceilings)
    print(
        f"peak of a product of matrices {ceilings.flops / 1e12:.4g} TFLOP/s in "
        f"{ceilings.precision}, of a copy {ceilings.bandwidth / 1e9:.4g} GB/s",
        flush=True,
    )
    counted = costs(plan.config, plan.num_actions, number=2 if half else 4)
    frames = 256 if device.type != "cuda" else 512 if plan.quick else 2048
    for mode in plan.modes:
        recorder.expect(weight_of_mode(plan, mode, counted, ceilings, device))
    with TemporaryDirectory(prefix="horizon-bench-") as folder:
        store = random_store(Path(folder) / "replay", plan.config, frames, plan.num_actions)
        try:
            for mode in plan.modes:
                Mode(plan, mode, recorder, counted, store, device).measure()
        finally:
            store.close()


@dataclass
class Mode:
    """The rows of one mode."""

    plan: Plan
    mode: str
    recorder: DocumentWriter
    counted: Costs
    store: Store
    device: torch.device

    def measure(self) -> None:
        """Shared stages, then every schedule, then growth in the first mode."""
        plan, first = self.plan, self.plan.schedules[0]
        config = plan.at(first, self.mode)
        bench = Workbench(config, self.store, self.device)
        learners = bench.learners(config, tokenizer=True)
        shared = self.shared(bench, learners)
        for schedule in plan.schedules:
            if schedule != first:
                config = plan.at(schedule, self.mode)
                learners = bench.learners(config, tokenizer=False)
            self.schedule(bench, learners, config, dict(shared))
        if plan.growth and self.mode == plan.modes[0]:
            config = plan.at(first, self.mode)
            learners = bench.learners(config, tokenizer=False)
            self.growth(bench, learners, config)

    def shared(self, bench: Workbench, learners: Learners) -> dict[str, float]:
        """Milliseconds of the steps that no schedule changes, and of encoding the replay."""
        found: dict[str, float] = {}
        for learner in (learners.tokenizer, learners.world_model):
            assert learner is not None
            work = self.counted.learner(learner.name)
            self._keep(found, self.row(learner.name, learner.step, None, work))
        sample = self.store.num_frames
        scale = self.plan.replay_frames / sample

        def scaled() -> Document:
            row = self._timed(encoding_call(bench), None)
            return row | {
                "ms": row["ms"] * scale,
                "least_ms": row["least_ms"] * scale,
                "frames": self.plan.replay_frames,
                "sampled_frames": sample,
                **self._work(
                    self.counted.encoding(self.plan.replay_frames, BLOCKS[self.device.type])
                ),
            }

        about = {"stage": "encoding", "mode": self.mode}
        self._keep(found, self.recorder.attempt(about, scaled, self.recorder.document["rows"]))
        return found

    def schedule(
        self, bench: Workbench, learners: Learners, config: Config, found: dict[str, float]
    ) -> None:
        """The controller's step, its parts, and the epoch that they make."""
        batch, counted = config.controller.learner.batch_size, self.counted
        calls: dict[str, tuple[Callable, Work]] = {
            "imagination": (imagination_call, counted.imagination(config, batch)),
            "denoiser": (denoiser_call, counted.denoiser(config, batch)),
            "rewards": (rewards_call, counted.rewards(config, batch)),
        }
        if config.imagination.engine == "plain":
            del calls["denoiser"]
        step = learners.controller.step
        self._keep(found, self.row("controller", step, config, counted.controller(config), 2))
        for stage, (make, work) in calls.items():
            call = make(bench, learners, config, batch)
            self._keep(found, self.row(stage, call, config, work, int(stage != "rewards")))
        self.difference("actions", found, config, "imagination", "denoiser")
        self.difference("update", found, config, "controller", "imagination", "rewards")
        self.epoch(found, config)

    def growth(self, bench: Workbench, learners: Learners, config: Config) -> None:
        """Time imagination at every point of the sweeps, and fit the growth."""
        grown: Document = {"mode": self.mode, "points": []}
        self.recorder.document["growth"] = grown
        for point, names in sweeps(config, quick=self.plan.quick).items():
            own = point.config(config)
            plan, work = self.counted.plan(own), self.counted.imagination(own, point.batch)
            about = {"stage": "growth", "sweeps": names, **asdict(point)} | {
                "frames": point.batch * plan.frames,
                "frame_pairs": point.batch * plan.pairs,
                "token_pairs": point.batch * plan.pairs * self.counted.tokens**2,
            }
            measured = partial(self._point, bench, learners, own, point, work)
            weighed = weight(self.recorder.ceilings, self.device, work, point.budget)
            self.recorder.attempt(about, measured, grown["points"], weighed)
        along = sorted(
            (x for x in grown["points"] if "horizon" in x["sweeps"]), key=lambda x: x["horizon"]
        )
        if len(along) >= 3:
            grown["fit"] = fit_growth(
                horizons=[x["horizon"] for x in along],
                ms=[x["ms"] for x in along],
                frames=[x["frames"] for x in along],
                pairs=[x["frame_pairs"] for x in along],
            ).as_json()
        self.recorder.write()

    def _point(
        self, bench: Workbench, learners: Learners, config: Config, point: Point, work: Work
    ) -> Document:
        call = imagination_call(bench, learners, config, point.batch)
        return self._timed(call, config) | self._work(work)

    def row(
        self, stage: str, call: Callable, config: Config | None, work: Work, parts: int = 1
    ) -> Document | None:
        """Time a stage; `parts` is its weight in the time left, in imaginations."""
        about = {"stage": stage, "mode": self.mode, **_schedule(config)}
        weighed = 0.0
        if config is not None:
            evaluated = config.controller.learner.batch_size * self.counted.plan(config).frames
            about |= {"frames": evaluated} if stage in ("imagination", "denoiser") else {}
            weighed = parts * weight(
                self.recorder.ceilings, self.device, work, config.imagination.budget
            )
        runs = config or self.plan.at(self.plan.schedules[0], self.mode)
        return self.recorder.attempt(
            about,
            lambda: self._timed(call, runs, steps=stage in LEARNERS) | self._work(work),
            self.recorder.document["rows"],
            weighed,
        )

    def difference(
        self, stage: str, found: dict[str, float], config: Config, whole: str, *parts: str
    ) -> None:
        """A stage that cannot be called alone: the time of the whole minus the other parts."""
        if whole in found and all(part in found for part in parts):
            ms = found[whole] - sum(found[part] for part in parts)
            self._derived(stage, config, ms, {"difference": [whole, *parts]})

    def epoch(self, found: dict[str, float], config: Config) -> None:
        """All steps of an epoch and one encoding of the replay; collecting is left out."""
        if any(name not in found for name in (*LEARNERS, "encoding")):
            return
        steps = {name: getattr(config, name).learner.steps_per_epoch for name in LEARNERS}
        ms = found["encoding"] + sum(steps[name] * found[name] for name in LEARNERS)
        self._derived(
            "epoch", config, ms, {"steps": steps, "replay_frames": self.plan.replay_frames}
        )

    def _derived(self, stage: str, config: Config, ms: float, more: Document) -> None:
        about = {"stage": stage, "mode": self.mode, **_schedule(config)}
        self.recorder.attempt(about, lambda: {"ms": ms, **more}, self.recorder.document["rows"])

    def _timed(self, call: Callable, config: Config | None, *, steps: bool = False) -> Document:
        """Time one call with the device idle before and after; captured learner steps also eight
        back to back. Without a config the call is never captured."""
        memory, repeats = Memory(self.device), self.plan.repeats
        graphs = config is not None and graph.wanted(config.runtime.graphs, self.device)
        warm_up = CAPTURED if graphs else LAUNCHED
        found = timed(call, self.device, repeats=repeats, warm_up=warm_up)._asdict()
        if steps and graphs:
            alone = {"alone_ms": found["ms"]}
            row = timed(call, self.device, repeats=repeats, warm_up=0, in_a_row=IN_A_ROW)
            found = row._asdict() | alone
        return found | memory.figures()

    def _work(self, work: Work) -> Document:
        least = self.recorder.ceilings.least_ms(work.flops, work.moved)
        return {"flops": work.flops, "bytes": work.moved, "floor_ms": least}

    @staticmethod
    def _keep(found: dict[str, float], row: Document | None) -> None:
        if row is not None:
            found[row["stage"]] = row["ms"]


def _schedule(config: Config | None) -> Document:
    if config is None:
        return {}
    cfg = config.imagination
    return {"decay_horizon": cfg.decay_horizon, "budget": cfg.budget}
