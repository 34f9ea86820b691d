"""A schedule of your own: any matrix of times, checked, drawn, counted, and learned with."""

import sys
from dataclasses import replace

import torch
from matplotlib.figure import Figure

import horizon_imagination as hi
from horizon_imagination.presets import PRESETS
from horizon_imagination.studies.exact_catch import ExactCatch

OWN = torch.tensor([[0, 0, 0], [1, 0.3, 0], [1, 0.6, 0.6], [1, 1, 1]])  # the last two together

if __name__ == "__main__":
    out, epochs = sys.argv[1], int(sys.argv[2])
    hi.check_schedule(OWN, horizon=3)
    schedules = {"own": OWN, "Horizon": hi.horizon_schedule(3, 3, 2.0)}
    schedules["full sequence"] = hi.full_sequence_schedule(3, 3)
    config = PRESETS["small-catch"][1]
    training = replace(config.training, epochs=epochs, initial_steps=300, collect_steps=24)
    training = replace(training, evaluation_episodes=20, strips_every=0)
    config = replace(config, env=replace(config.env, size=16), training=training)
    figure = Figure(figsize=(8, 3), layout="constrained")
    for axes, (name, schedule) in zip(figure.subplots(1, 3), schedules.items(), strict=True):
        folder = f"{out}/{name.replace(' ', '-')}"
        world = ExactCatch(cells=4, size=16)
        run = hi.train(config, world_model=world, schedule=schedule, out=folder, progress=False)
        window, plain = hi.frame_evaluations(schedule, context=1)
        returned = run.agent.evaluate(50).mean
        print(f"{name}: {window} frames with a window, {plain} without; return {returned:.2f}")
        axes.imshow(schedule.numpy(), cmap="cividis", vmin=0, vmax=1)
        axes.set(title=f"{name}: {returned:.2f}", xlabel="frame", ylabel="denoising step")
    figure.savefig(f"{out}/schedules.png")
