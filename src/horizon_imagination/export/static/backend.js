// Who computes: WebGPU where the browser has one that gives the same numbers, else WebAssembly.

// What is embedded: base64 of gzip.
export async function embedded(id) {
  const packed = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const GRAPHS = ["denoise", "decode", "act", "judge"];
const LARGE = { denoise: 1e-3, decode: 1 }; // what a GPU is for, and how far it may be off (decode: bytes)
const TRIALS = 3;

// ONNX Runtime from this page itself: nothing is fetched, so that it also runs from a file.
async function openRuntime(suffix) {
  const script = new Blob([await embedded(`runtime${suffix}`)], { type: "text/javascript" });
  const ort = await import(URL.createObjectURL(script));
  ort.env.wasm.wasmBinary = (await embedded(`wasm${suffix}`)).buffer;
  ort.env.wasm.numThreads = 1; // threads need headers that a file does not have
  return ort;
}

async function openGraphs(ort, names, provider) {
  const sessions = {};
  const options = { executionProviders: [provider], logSeverityLevel: 3 }; // errors
  for (const name of names) {
    sessions[name] = await ort.InferenceSession.create(await embedded(name), options);
  }
  return sessions;
}

// Why WebGPU cannot run here; nothing where it can. A software adapter is for those who ask for it.
async function lacking(wanted) {
  if (!document.getElementById("wasm-webgpu")) return "not in this page";
  if (!WebAssembly.Suspending) return "this browser has no JavaScript Promise Integration";
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return "no adapter";
  return adapter.info?.isFallbackAdapter && wanted !== "webgpu" ? "software only" : "";
}

// The largest difference of a graph's output between two sessions, and the time of each.
export async function compared(session, other, feeds) {
  const answers = [], times = [];
  for (const one of [session, other]) {
    answers.push(Object.values(await one.run(feeds))[0].data); // the first run compiles
    const begun = performance.now();
    for (let i = 0; i < TRIALS; i++) await one.run(feeds);
    times.push((performance.now() - begun) / TRIALS);
  }
  const [mine, theirs] = answers;
  const off = mine.reduce((most, x, i) => Math.max(most, Math.abs(x - theirs[i])), 0);
  return { off: mine.every(Number.isFinite) && theirs.every(Number.isFinite) ? off : Infinity, times };
}

// The large graphs on WebGPU, if it agrees with WebAssembly and is faster, or was asked for.
export async function chosen(cpu, gpu, examples, wanted) {
  let before = 0, after = 0;
  for (const [name, tolerance] of Object.entries(LARGE)) {
    const { off, times } = await compared(cpu[name], gpu[name], examples[name]);
    if (!(off <= tolerance)) return { sessions: cpu, label: `WebAssembly (${name} on WebGPU is off by ${off.toPrecision(2)})` };
    before += times[0];
    after += times[1];
  }
  if (after > before && wanted !== "webgpu") return { sessions: cpu, label: "WebAssembly (WebGPU is slower here)" };
  return { sessions: { ...cpu, ...gpu }, label: "WebGPU" };
}

// The sessions of all graphs. `wanted` is webgpu, wasm or nothing; `examples` makes inputs to try.
export async function openBackend(wanted, examples) {
  let note = wanted === "wasm" ? "as asked" : await lacking(wanted);
  if (!note) {
    try {
      const ort = await openRuntime("-webgpu");
      const cpu = await openGraphs(ort, GRAPHS, "wasm");
      const gpu = await openGraphs(ort, Object.keys(LARGE), "webgpu");
      return { ort, ...await chosen(cpu, gpu, examples(ort), wanted) };
    } catch (error) {
      note = `WebGPU failed: ${error.message}`;
    }
  }
  const ort = await openRuntime("");
  return { ort, sessions: await openGraphs(ort, GRAPHS, "wasm"), label: "WebAssembly", note };
}
