// Action spaces: a number, several numbers, or a vector in a box. Each says how an action is drawn
// from a policy with fixed dice, how the denoiser takes it, and how it is shown. Vectors of a box
// are scaled to [-1, 1] here; people see them in the units of the world.

import { normals, roll, stableAction, stableVector } from "./imagination.js";

const IDLE = ["noop", "nop", "stay", "still", "idle", "none", "wait"];
const MOVED = 0.1; // distance, of a range of 2, from which on a vector counts as changed

// A number of an action where there is little room.
export const places = (x) => String(Math.round(100 * x) / 100).replace("-", "−");

// One of the named actions; the policy has their probabilities.
export class Numbered {
  constructor(names) {
    Object.assign(this, { names, none: -1, width: 1, whole: true, entries: null });
    this.idle = Math.max(0, names.findIndex((name) => IDLE.includes(name.toLowerCase())));
  }

  roll(random) { return roll(random, this.names.length); }
  stable(policy, dice) { return stableAction(policy, dice); }
  told(action) { return this.names[action]; }
  changed(action, before) { return action !== before; }
  shares(policy) { return [...policy]; } // a number from 0 to 1 for every name
  example(i) { return i % this.names.length; }
}

// Several numbers at a time, each with probabilities of its own, side by side in the policy.
export class Several {
  constructor(names, factors) {
    Object.assign(this, { names, factors, none: -1, width: factors.length, whole: true });
    this.entries = factors.map((n) => ({ low: 0, high: n - 1, whole: true }));
    this.idle = factors.map(() => 0);
  }

  split(policy) {
    let end = 0;
    return this.factors.map((n) => policy.slice(end, end += n));
  }

  roll(random) { return this.factors.map((n) => roll(random, n)); }
  stable(policy, dice) { return this.split(policy).map((probs, i) => stableAction(probs, dice[i])); }
  told(action) { return action.join(" "); }
  changed(action, before) { return action.some((x, i) => x !== before[i]); }
  middle(policy) { return this.split(policy).map((probs) => probs.indexOf(Math.max(...probs))); }
  shares(policy) { return this.middle(policy).map((x, i) => x / Math.max(1, this.factors[i] - 1)); }
  toWorld(action) { return action; }
  fromWorld(values) { return values; }
  example(i) { return this.factors.map((n) => i % n); }
}

// A vector between bounds; the policy has means and deviations, before the tanh.
export class Bounded {
  constructor(names, low, high) {
    Object.assign(this, { names, low, high, none: -2, width: low.length, whole: false });
    this.entries = low.map((from, i) => ({ low: from, high: high[i], whole: false }));
    this.idle = this.fromWorld(low.map((from, i) => Math.min(Math.max(0, from), high[i])));
  }

  roll(random) { return normals(random, this.width); }
  stable(policy, dice) { return stableVector(policy, dice); }
  told(action) { return this.toWorld(action).map(places).join(" "); }
  changed(action, before) { return Math.hypot(...action.map((x, i) => x - before[i])) > MOVED; }
  middle(policy) { return policy.slice(0, this.width).map(Math.tanh); }
  shares(policy) { return this.middle(policy).map((x) => (x + 1) / 2); }
  toWorld(action) { return action.map((x, i) => this.low[i] + (x + 1) / 2 * (this.high[i] - this.low[i])); }
  fromWorld(values) { return values.map((x, i) => (x - this.low[i]) / (this.high[i] - this.low[i]) * 2 - 1); }
  example(i) { return this.low.map(() => (i % 5) / 2 - 1); }
}

export function spaceOf({ actions, action_space }) {
  if (!action_space) return new Numbered(actions);
  const { kind, low, high, factors } = action_space;
  return kind === "box" ? new Bounded(actions, low, high) : new Several(actions, factors);
}
