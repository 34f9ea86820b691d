// An episode in the world model: where it began, what was done, what the networks remember of it.

import { horizonSchedule, imagine, nextFrame, noise } from "./imagination.js";

export class Dream {
  constructor(model, random) {
    this.model = model;
    this.about = model.about;
    this.space = model.space;
    this.random = random;
  }

  // Begin where the real world once began.
  async begin(start) {
    this.frames = [Float32Array.from(start)];
    this.actions = [this.space.none];
    this.steps = 0;
    this.total = 0;
    this.ended = false;
    const { actor, judges } = this.model.start();
    await this.look(actor, judges);
    Object.assign(this, { reward: 0, end: 0 }); // no step led here
    return this;
  }

  // Imagine the frame that an action leads to.
  async step(action, steps) {
    const z = await nextFrame(this.model, {
      z: noise(this.random, this.model.size), context: this.context(this.about.context), action, steps,
    });
    this.frames = [...this.frames, z].slice(-this.about.context);
    this.actions = [...this.actions, action].slice(-this.about.context);
    this.steps += 1;
    await this.look(this.actor, this.judges);
    this.total += this.reward;
    this.ended = this.end > 0.5;
  }

  // What the networks say of the latest frame.
  async look(actor, judges) {
    const z = this.frames.at(-1);
    const acted = await this.model.act(z, 1, actor);
    const judged = await this.model.judge(z, judges);
    this.policy = acted.policy;
    this.actor = acted.state;
    this.judges = judged.state;
    this.reward = judged.reward;
    this.end = judged.end;
    this.value = judged.value;
    this.picture = await this.model.decode(z);
  }

  // The last frames as the denoiser takes them; no action led to the first of them.
  context(count) {
    const frames = this.frames.slice(-count);
    return { frames, actions: [this.space.none, ...this.actions.slice(-count).slice(1)] };
  }

  sample() {
    return this.space.stable(this.policy, this.space.roll(this.random));
  }

  // The whole horizon from here, with the policy's own actions, row by row.
  strip(budget, decay) {
    const { horizon, imagination_context } = this.about;
    const dice = Array.from({ length: horizon }, () => this.space.roll(this.random));
    return imagine(this.model, {
      frames: dice.map(() => noise(this.random, this.model.size)),
      schedule: horizonSchedule(horizon, budget, decay),
      context: this.context(imagination_context),
      first: { action: this.space.stable(this.policy, dice[0]), policy: this.policy },
      state: this.actor,
      dice,
    });
  }

  // Reward, end and value of imagined frames that are clean.
  async judged(frames) {
    const said = [];
    let state = this.judges;
    for (const z of frames) {
      said.push(await this.model.judge(z, state));
      state = said.at(-1).state;
    }
    return said;
  }
}
