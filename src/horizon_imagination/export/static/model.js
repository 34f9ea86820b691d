// The networks: four ONNX graphs that travel inside this page, run by ONNX Runtime.

import { openBackend } from "./backend.js";
import { noise } from "./imagination.js";

export class Model {
  constructor(about, space) {
    this.about = about;
    this.space = space;
    this.size = about.latent.reduce((a, b) => a * b);
  }

  // Load the graphs and decide who computes them.
  static async open(about, space, wanted, random) {
    const model = new Model(about, space);
    return Object.assign(model, await openBackend(wanted, (ort) => model.examples(ort, random)));
  }

  floats(data, shape) { return new this.ort.Tensor("float32", data, shape); }

  // The actor's state before the first frame, and that of the judges.
  start() {
    const zeros = (size) => this.floats(new Float32Array(size), [1, size]);
    const { actor, reward, critic } = this.about.hidden;
    return {
      actor: { h: zeros(actor), c: zeros(actor) },
      judges: { h_reward: zeros(reward), c_reward: zeros(reward), h_critic: zeros(critic), c_critic: zeros(critic) },
    };
  }

  // The velocity of every frame.
  async denoise(frames, tau, actions) {
    const { velocity } = await this.sessions.denoise.run(this.noisy(frames, tau, actions));
    return frames.map((_, t) => velocity.data.slice(t * this.size, (t + 1) * this.size));
  }

  // The denoiser's inputs. The graph has a fixed number of frames: the rest, at the end, is noise
  // that nobody sees.
  noisy(frames, tau, actions) {
    const { window, latent } = this.about, { width, whole, none, entries } = this.space;
    const z = new Float32Array(window * this.size), times = new Float32Array(window);
    const led = new (whole ? Int32Array : Float32Array)(window * width).fill(none);
    frames.forEach((frame, t) => z.set(frame, t * this.size));
    times.set(tau);
    actions.forEach((action, t) => led.set([action].flat(), t * width));
    return {
      z: this.floats(z, [1, window, ...latent]),
      tau: this.floats(times, [1, window]),
      actions: new this.ort.Tensor(whole ? "int32" : "float32", led, entries ? [1, window, width] : [1, window]),
    };
  }

  // Inputs of the large graphs, to compare who computes them.
  examples(ort, random) {
    this.ort = ort;
    const frames = Array.from({ length: this.about.window }, () => noise(random, this.size));
    const actions = frames.map((_, t) => (t ? this.space.example(t) : this.space.none));
    return {
      denoise: this.noisy(frames, frames.map(random), actions),
      decode: { z: this.floats(frames[0], [1, ...this.about.latent]) },
    };
  }

  // A picture for a canvas.
  async decode(z) {
    const { rgba } = await this.sessions.decode.run({ z: this.floats(z, [1, ...this.about.latent]) });
    return new ImageData(new Uint8ClampedArray(rgba.data), rgba.dims[1], rgba.dims[0]);
  }

  // The policy at a frame, and the actor's state after it.
  async act(z, tau, state) {
    const said = await this.sessions.act.run({
      z: this.floats(z, [1, ...this.about.latent]), tau: this.floats(Float32Array.of(tau), [1]), ...state,
    });
    return { policy: [...said.policy.data], state: { h: said.next_h, c: said.next_c } };
  }

  // Reward, chance of an end and value of a clean frame.
  async judge(z, state) {
    const { numbers, ...after } = await this.sessions.judge.run({ z: this.floats(z, [1, ...this.about.latent]), ...state });
    const [reward, end, value] = numbers.data;
    const next = Object.fromEntries(Object.entries(after).map(([name, tensor]) => [name.slice(5), tensor]));
    return { reward, end, value, state: next };
  }
}
