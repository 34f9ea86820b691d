// Horizon Imagination as plain functions: the schedule, stable actions, and Euler steps of the
// rectified flow. A frame is a Float32Array, a latent; time 0 is noise, time 1 is clean.

const CRUMB = 1e-6; // a time this close to an end is that end

// Rows from noise to clean, a column for every frame: a front of slope -1/decay sweeps over them.
export function horizonSchedule(horizon, budget, decay) {
  const time = (row, frame) => {
    const tau = (row * (decay + horizon - 1) - frame * budget) / (decay * budget);
    return tau < CRUMB ? 0 : tau > 1 - CRUMB ? 1 : Math.fround(tau);
  };
  return [...Array(budget + 1).keys()].map((row) => [...Array(horizon).keys()].map((frame) => time(row, frame)));
}

// Uniform numbers in [0, 1) that a seed decides (a linear congruential generator of 48 bits).
export function uniforms(seed) {
  const mask = (1n << 48n) - 1n;
  let state = (BigInt(Math.floor(seed)) * 0x9E3779B97F4A7C15n + 1n) & mask;
  return () => {
    state = (state * 0x5DEECE66Dn + 0xBn) & mask;
    return Number(state >> 16n) / 2 ** 32;
  };
}

export function noise(random, size) {
  return Float32Array.from({ length: size }, () => 2 * random() - 1);
}

// All the randomness of one action: uniforms, and the order in which actions are offered.
export function roll(random, actions) {
  const omega = Array.from({ length: actions - 1 }, random);
  const keys = Array.from({ length: actions }, random);
  return { omega, order: [...keys.keys()].sort((a, b) => keys[a] - keys[b]) };
}

// The first action, in the order of the dice, whose threshold exceeds omega: its probability,
// divided by that of all actions from it on.
export function stableAction(probs, { omega, order }) {
  const left = Array(order.length + 1).fill(0);
  for (let i = order.length - 1; i >= 0; i--) left[i] = left[i + 1] + probs[order[i]];
  const taken = omega.findIndex((chance, i) => left[i] > 0 && chance < probs[order[i]] / left[i]);
  return order.at(taken); // -1, the last one, where every other was refused
}

// Standard normal numbers, by Box and Muller.
export function normals(random, count) {
  return Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()));
}

const EDGE = 1 - 1e-6; // the largest action: closer to 1, float32 cannot tell the value before the tanh

// The action of a squashed Gaussian under fixed noise: tanh(mean + noise * deviation).
export function stableVector(policy, noise) {
  const deviations = policy.slice(noise.length);
  return noise.map((omega, i) => Math.min(EDGE, Math.max(-EDGE, Math.tanh(policy[i] + omega * deviations[i]))));
}

// z + dtau v: towards what the denoiser expects, by as much as the frame's time rises.
export function euler(z, velocity, dtau) {
  return dtau > 0 ? z.map((x, i) => x + dtau * velocity[i]) : z;
}

// Imagine a whole horizon. Yields every row: frames, their times, the action that leads to each
// frame and the policy it was drawn from. `context` has clean frames and the actions that led to
// them; `state` is the actor's after the last of them; `dice` has an entry for every frame, thrown
// once: every row reads its policies with the same dice.
export async function* imagine(model, { frames, schedule, context, first, state, dice }) {
  for (const [row, tau] of schedule.entries()) {
    const actions = [first.action], policies = [first.policy];
    let memory = state;
    for (let t = 0; t + 1 < frames.length; t++) {
      const said = await model.act(frames[t], tau[t], memory);
      memory = said.state;
      policies.push(said.policy);
      actions.push(model.space.stable(said.policy, dice[t + 1]));
    }
    yield { row, tau, frames, actions, policies };
    if (row + 1 === schedule.length) return;
    const seen = [...context.frames, ...frames];
    const times = [...context.frames.map(() => 1), ...tau];
    const velocity = await model.denoise(seen, times, [...context.actions, ...actions]);
    frames = frames.map((z, t) => euler(z, velocity[context.frames.length + t], schedule[row + 1][t] - tau[t]));
  }
}

// The one frame that an action leads to, denoised in so many steps.
export async function nextFrame(model, { z, context, action, steps }) {
  for (let step = 0; step < steps; step++) {
    const times = [...context.frames.map(() => 1), step / steps];
    const velocity = await model.denoise([...context.frames, z], times, [...context.actions, action]);
    z = euler(z, velocity.at(-1), (step + 1) / steps - step / steps);
  }
  return z;
}
