"""On a GPU, steps that are replayed as CUDA graphs learn what launched steps learn."""

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import LearnerConfig
from horizon_imagination.engine.graph import WARM_UP
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.streams import Streams

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS, PIECES = 20, 2
# A rate that changes at every step: a captured step must see it.
LEARNER = LearnerConfig(
    batch_size=8, steps_per_epoch=STEPS, learning_rate=1e-3, warmup_steps=15, micro_batches=PIECES
)
ALLOWED = {"float32": 1e-3, "bfloat16": 2e-2}


@pytest.fixture(autouse=True)
def _repeatable_kernels():
    """Not by monkeypatch, which would delete the property of cuBLAS instead of setting it back."""
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.deterministic, cudnn.allow_tf32, products.allow_tf32
    cudnn.deterministic, cudnn.allow_tf32, products.allow_tf32 = True, False, False
    yield
    cudnn.deterministic, cudnn.allow_tf32, products.allow_tf32 = before


def trained(graphs, precision, fused, folder, **imagination):
    """Figures of every step [step, figure] and weights before and after, of every learner."""
    device = torch.device("cuda")
    base = PRESETS["debug"][1]
    sections = {x: {"learner": LEARNER} for x in ("tokenizer", "world_model", "controller")}
    runtime = {"device": "cuda", "precision": precision, "graphs": graphs, "fused": fused}
    config = replaced(base, **sections, runtime=runtime, imagination=imagination)
    agent = Agent(config, 3, device)
    assert agent.captured == (graphs != "off")
    batches = RandomBatches(agent, torch.Generator(device).manual_seed(1))
    learners = make_learners(agent, batches, Streams(0, device), Guard(folder, every=7))
    found = {}
    for learner in learners.in_order():
        calls, loss = [], learner.loss

        def watched(batch, calls=calls, loss=loss):
            calls.append(1)
            return loss(batch)

        learner.loss = watched
        before = weights_of(learner)
        steps = [learner.step() for _ in range(STEPS)]
        learner.settle()
        figures = torch.stack([torch.stack([x.float() for x in s.values()]) for s in steps])
        found[learner.name] = figures.cpu(), before, weights_of(learner)
        launched = WARM_UP + 1 if agent.captured else STEPS  # the last one is the capture
        assert len(calls) == launched * PIECES
    return found


def weights_of(learner):
    groups = learner.parameters.values()
    return torch.cat([p.detach().float().flatten() for group in groups for p in group]).cpu()


def figure_error(a, b):
    return float(((a - b).abs() / (b.abs() + 1e-2)).max())


def weight_error(a, b, before):
    """The distance of two ends, as a share of the way to one of them."""
    return float((a - b).norm() / (b - before).norm())


@pytest.mark.parametrize("fused", ["off", "auto"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_captured_steps_are_launched_steps(precision, fused, tmp_path, record_property):
    """Every figure of 20 steps, and the weights after them. Launched steps are taken twice: where
    they do not repeat themselves, captured ones may differ ten times as much."""
    launched, again, captured = (
        trained(graphs, precision, fused, tmp_path / name)
        for name, graphs in (("a", "off"), ("b", "off"), ("c", "auto"))
    )
    for name, (figures, before, weights) in launched.items():
        assert len(figures.unique(dim=0)) == STEPS, f"{name}: every step is another one"
        noise = figure_error(again[name][0], figures)
        error = figure_error(captured[name][0], figures)
        noise_of_weights = weight_error(again[name][2], weights, before)
        error_of_weights = weight_error(captured[name][2], weights, before)
        said = f"{name}: figures {error:.1e} (launched again {noise:.1e}), weights "
        said += f"{error_of_weights:.1e} ({noise_of_weights:.1e})"
        record_property(name, said)
        print(said)
        assert error <= ALLOWED[precision] + 10 * noise, said
        assert error_of_weights <= 10 * ALLOWED[precision] + 10 * noise_of_weights, said


def test_the_plain_loop_of_naive_sampling_is_captured(tmp_path):
    """Its schedule is on the device before, and is not read again."""
    naive = {"sampler": "naive", "engine": "plain"}
    launched = trained("off", "float32", "off", tmp_path / "a", **naive)["controller"]
    captured = trained("auto", "float32", "off", tmp_path / "b", **naive)["controller"]
    assert weight_error(captured[2], launched[2], launched[1]) <= 10 * ALLOWED["float32"]


@pytest.mark.parametrize("planted", ["noise", "rate", "batch"])
def test_the_comparison_finds_a_captured_step_that_is_wrong(planted, tmp_path, monkeypatch):
    """Random numbers, rate or batch of the captured step again and again."""
    from horizon_imagination.engine.graph import StepGraph
    from horizon_imagination.learn.learner import Learner

    launched = trained("off", "float32", "off", tmp_path / "a")
    if planted == "rate":
        set_rate = Learner._set_rate
        monkeypatch.setattr(
            Learner, "_set_rate", lambda self, rate: self.steps > WARM_UP or set_rate(self, rate)
        )
    if planted == "batch":
        monkeypatch.setattr(StepGraph, "_put", lambda self, batch: None)
    if planted == "noise":
        call = StepGraph.__call__

        def stuck(self, batch):
            states = [generator.clone_state() for generator in self._generators]
            result = call(self, batch)
            if self._calls > WARM_UP:
                for generator, state in zip(self._generators, states, strict=True):
                    generator.set_state(state.get_state())
            return result

        monkeypatch.setattr(StepGraph, "__call__", stuck)
    wrong = trained("on", "float32", "off", tmp_path / "b")
    errors = [
        weight_error(wrong[name][2], weights, before)
        for name, (_, before, weights) in launched.items()
    ]
    assert max(errors) > 10 * ALLOWED["float32"], errors
