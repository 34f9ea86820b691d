"""All of `horizon bench`: ceilings, the stages of an epoch in every mode, growth."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from horizon_imagination.bench import stages
from horizon_imagination.bench.ceilings import measure_ceilings
from horizon_imagination.bench.clock import CAPTURED, IN_A_ROW, LAUNCHED, Memory, timed
from horizon_imagination.bench.counts import Counts, Work
from horizon_imagination.bench.document import Document, Recorder
from horizon_imagination.bench.fit import fit_growth
from horizon_imagination.bench.growth import Point, sweeps
from horizon_imagination.bench.plan import Plan, weight, weight_of_mode
from horizon_imagination.bench.setting import Setting, random_store
from horizon_imagination.config import Config
from horizon_imagination.data import Store
from horizon_imagination.device import uses_bfloat16
from horizon_imagination.learn.latents import BLOCKS
from horizon_imagination.run.costs import costs
from horizon_imagination.run.learners import Learners

LEARNERS = ("tokenizer", "world_model", "controller")


def measure(plan: Plan, recorder: Recorder, device: torch.device) -> None:
    """Measure everything; results are in the recorder's document."""
    half = uses_bfloat16(plan.config.runtime, device)
    ceilings = measure_ceilings(device, torch.bfloat16 if half else torch.float32)
    recorder.document["ceilings"] = asdict(ceilings)
    print(
        f"peak of a product of matrices {ceilings.flops / 1e12:.4g} TFLOP/s in "
        f"{ceilings.precision}, of a copy {ceilings.bandwidth / 1e9:.4g} GB/s",
        flush=True,
    )
    counts = Counts(plan.config, costs(plan.config, plan.num_actions), 2 if half else 4)
    frames = 256 if device.type != "cuda" else 512 if plan.quick else 2048
    for mode in plan.modes:
        recorder.expect(weight_of_mode(plan, mode, counts, ceilings, device))
    with TemporaryDirectory(prefix="horizon-bench-") as folder:
        store = random_store(Path(folder) / "replay", plan.config, frames, plan.num_actions)
        try:
            for mode in plan.modes:
                Mode(plan, mode, recorder, counts, store, device).measure()
        finally:
            store.close()


@dataclass
class Mode:
    """The rows of one mode."""

    plan: Plan
    mode: str
    recorder: Recorder
    counts: Counts
    store: Store
    device: torch.device

    def measure(self) -> None:
        """Shared stages, then every schedule, then growth in the first mode."""
        plan, first = self.plan, self.plan.schedules[0]
        config = plan.at(first, self.mode)
        setting = Setting(config, self.store, self.device)
        learners = setting.learners(config, tokenizer=True)
        shared = self.shared(setting, learners)
        for schedule in plan.schedules:
            if schedule != first:
                config = plan.at(schedule, self.mode)
                learners = setting.learners(config, tokenizer=False)
            self.schedule(setting, learners, config, dict(shared))
        if plan.growth and self.mode == plan.modes[0]:
            config = plan.at(first, self.mode)
            learners = setting.learners(config, tokenizer=False)
            self.growth(setting, learners, config)

    def shared(self, setting: Setting, learners: Learners) -> dict[str, float]:
        """Milliseconds of the steps that no schedule changes, and of encoding the replay."""
        found: dict[str, float] = {}
        for learner in (learners.tokenizer, learners.world_model):
            assert learner is not None
            work = self.counts.learner(learner.name)
            self._keep(found, self.row(learner.name, learner.step, None, work))
        sample = self.store.num_frames
        scale = self.plan.replay_frames / sample

        def scaled() -> Document:
            row = self._timed(stages.encoding(setting), graphs=False)
            return row | {
                "ms": row["ms"] * scale,
                "least_ms": row["least_ms"] * scale,
                "frames": self.plan.replay_frames,
                "sampled_frames": sample,
                **self._work(
                    self.counts.encoding(self.plan.replay_frames, BLOCKS[self.device.type])
                ),
            }

        about = {"stage": "encoding", "mode": self.mode}
        self._keep(found, self.recorder.attempt(about, scaled, self.recorder.document["rows"]))
        return found

    def schedule(
        self, setting: Setting, learners: Learners, config: Config, found: dict[str, float]
    ) -> None:
        """The controller's step, its parts, and the epoch that they make."""
        batch, counts = config.controller.learner.batch_size, self.counts
        calls: dict[str, tuple[Callable, Work]] = {
            "imagination": (stages.imagination, counts.imagination(config, batch)),
            "denoiser": (stages.denoiser, counts.denoiser(config, batch)),
            "rewards": (stages.rewards, counts.rewards(config, batch)),
        }
        if config.imagination.engine == "plain":
            del calls["denoiser"]
        step = learners.controller.step
        self._keep(found, self.row("controller", step, config, counts.controller(config), 2))
        for stage, (make, work) in calls.items():
            call = make(setting, learners, config, batch)
            self._keep(found, self.row(stage, call, config, work, int(stage != "rewards")))
        self.difference("actions", found, config, "imagination", "denoiser")
        self.difference("update", found, config, "controller", "imagination", "rewards")
        self.epoch(found, config)

    def growth(self, setting: Setting, learners: Learners, config: Config) -> None:
        """Imagination at every point of the sweeps, and what its time follows."""
        grown: Document = {"mode": self.mode, "points": []}
        self.recorder.document["growth"] = grown
        for point, names in sweeps(config, quick=self.plan.quick).items():
            own = point.config(config)
            plan, work = self.counts.plan(own), self.counts.imagination(own, point.batch)
            about = {"stage": "growth", "sweeps": names, **asdict(point)} | {
                "frames": point.batch * plan.frames,
                "frame_pairs": point.batch * plan.pairs,
                "token_pairs": point.batch * plan.pairs * self.counts.tokens**2,
            }
            measured = partial(self._point, setting, learners, own, point, work)
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
        self, setting: Setting, learners: Learners, config: Config, point: Point, work: Work
    ) -> Document:
        call = stages.imagination(setting, learners, config, point.batch)
        return self._timed(call, config.runtime.graphs) | self._work(work)

    def row(
        self, stage: str, call: Callable, config: Config | None, work: Work, parts: int = 1
    ) -> Document | None:
        """Time a stage; `parts` is how much of an imagination it weighs in the time left."""
        about = {"stage": stage, "mode": self.mode, **_schedule(config)}
        weighed = 0.0
        if config is not None:
            evaluated = config.controller.learner.batch_size * self.counts.plan(config).frames
            about |= {"frames": evaluated} if stage in ("imagination", "denoiser") else {}
            weighed = parts * weight(
                self.recorder.ceilings, self.device, work, config.imagination.budget
            )
        graphs = (config or self.plan.at(self.plan.schedules[0], self.mode)).runtime.graphs
        return self.recorder.attempt(
            about,
            lambda: self._timed(call, graphs, steps=stage in LEARNERS) | self._work(work),
            self.recorder.document["rows"],
            weighed,
        )

    def difference(
        self, stage: str, found: dict[str, float], config: Config, whole: str, *parts: str
    ) -> None:
        """A stage that has no call of its own: what is left of another without its parts."""
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

    def _timed(self, call: Callable, graphs: bool, *, steps: bool = False) -> Document:
        """Alone, between two drains; captured steps of a learner also as an epoch takes them."""
        memory, repeats = Memory(self.device), self.plan.repeats
        graphs = graphs and self.device.type == "cuda"
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
