// The networks: four ONNX graphs that travel inside this page, run by ONNX Runtime.

// What is embedded: base64 of gzip.
export async function embedded(id) {
  const packed = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// ONNX Runtime from this page itself: nothing is fetched, so that it also runs from a file.
export async function openRuntime() {
  const script = new Blob([await embedded("runtime")], { type: "text/javascript" });
  const ort = await import(URL.createObjectURL(script));
  ort.env.wasm.wasmBinary = (await embedded("wasm")).buffer;
  ort.env.wasm.numThreads = 1; // threads need headers that a file does not have
  return ort;
}

export class Model {
  constructor(ort, about, sessions) {
    this.ort = ort;
    this.about = about;
    this.sessions = sessions;
    this.size = about.latent.reduce((a, b) => a * b);
  }

  static async open(ort, about) {
    const sessions = {};
    for (const name of ["denoise", "decode", "act", "judge"]) {
      sessions[name] = await ort.InferenceSession.create(await embedded(name), { executionProviders: about.providers });
    }
    return new Model(ort, about, sessions);
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

  // The velocity of every frame. The graph has a fixed number of frames: the rest, at the end, is
  // noise that nobody sees.
  async denoise(frames, tau, actions) {
    const { window, latent } = this.about;
    const z = new Float32Array(window * this.size), times = new Float32Array(window);
    const led = new Int32Array(window).fill(-1);
    frames.forEach((frame, t) => z.set(frame, t * this.size));
    times.set(tau);
    led.set(actions);
    const { velocity } = await this.sessions.denoise.run({
      z: this.floats(z, [1, window, ...latent]),
      tau: this.floats(times, [1, window]),
      actions: new this.ort.Tensor("int32", led, [1, window]),
    });
    return frames.map((_, t) => velocity.data.slice(t * this.size, (t + 1) * this.size));
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
    return { probs: [...said.probs.data], state: { h: said.next_h, c: said.next_c } };
  }

  // Reward, chance of an end and value of a clean frame.
  async judge(z, state) {
    const { numbers, ...after } = await this.sessions.judge.run({ z: this.floats(z, [1, ...this.about.latent]), ...state });
    const [reward, end, value] = numbers.data;
    const next = Object.fromEntries(Object.entries(after).map(([name, tensor]) => [name.slice(5), tensor]));
    return { reward, end, value, state: next };
  }
}
