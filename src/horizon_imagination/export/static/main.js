// The page: play the dream, or watch a whole horizon become clear.

import { $, make, heading, signed, number, percent, radio, canvas, colour, paced, calm } from "./page.js";
import { Keys, short } from "./keys.js";
import { lines, matrix } from "./draw.js";
import { horizonSchedule, imagine, nextFrame, uniforms } from "./imagination.js";
import { spaceOf } from "./actions.js";
import { compared, chosen } from "./backend.js";
import { Model } from "./model.js";
import { Dream } from "./dream.js";
import { Buttons, Levers, showPolicy } from "./controls.js";

const about = JSON.parse($("facts").textContent);
const asked = new URLSearchParams(location.search);
const random = uniforms(Number(asked.get("seed") ?? Date.now() % 2 ** 31));
const space = spaceOf(about);
const game = { dream: null, player: "person", running: false, busy: false, wanted: null, held: null, taken: -1, history: [] };

const keys = new Keys(
  (action) => { if (game.running) game.held = action; else act(action); },
  (action) => { game.held = action; },
);

function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
}

// One step at a time: what is asked for meanwhile is done next.
async function act(action) {
  if (game.busy) { game.wanted = action; return; }
  game.busy = true;
  try {
    if (game.dream.ended) await begin();
    else await step(action);
  } finally {
    game.busy = false;
  }
  const next = game.wanted;
  game.wanted = null;
  if (next !== null) act(next);
}

async function step(action) {
  const { dream } = game;
  action ??= game.player === "policy" ? dream.sample() : game.held ?? game.controls.action;
  const begun = performance.now();
  await dream.step(action, Number($("steps").value));
  game.spent = performance.now() - begun;
  game.taken = action;
  show();
}

async function begin() {
  const { starts } = about;
  await game.dream.begin(starts[Math.floor(random() * starts.length)]);
  Object.assign(game, { taken: -1, history: [], spent: null });
  show();
}

function show() {
  const { dream } = game, view = $("view");
  Object.assign(view, { width: dream.picture.width, height: dream.picture.height });
  view.getContext("2d").putImageData(dream.picture, 0, 0);
  $("step-note").textContent = `step ${dream.steps} · return ${signed(dream.total)}`;
  $("pace").textContent = `on ${dream.model.label}${game.spent ? `, ${Math.round(game.spent)} ms a frame` : ""}`;
  $("reward").textContent = signed(dream.reward);
  $("value").textContent = number(dream.value);
  $("end").textContent = percent(dream.end);
  $("over").hidden = !dream.ended;
  $("over").firstChild.textContent = `Over, ${signed(dream.total)}`;
  $("screen").classList.toggle("ended", dream.ended);
  showPolicy(space, dream.policy);
  if (!space.entries || game.player === "policy") game.controls.show(game.taken);
  game.history.push({ step: dream.steps, value: dream.value, reward: dream.reward });
  drawTimeline();
}

const drawTimeline = paced(canvas($("timeline"), (context, width, height) => {
  const of = (pick) => game.history.map((moment) => [moment.step, moment[pick]]);
  const shade = colour("accent");
  const series = [{ points: of("value"), colour: shade, width: 2 }, { points: of("reward"), colour: shade, bars: true }];
  if (game.history.length) lines(context, width, height, series, { from: 0, to: Math.max(8, game.history.at(-1).step) });
}));

// The world runs on its own: a step whenever it is time for one and the last one is done.
let next = 0;
function tick(now) {
  if (!game.running) return;
  if (now >= next && !game.busy) {
    next = Math.max(now, next + 1000 / Number($("speed").value));
    if (game.dream.ended) next = now + 700;
    act();
  }
  requestAnimationFrame(tick);
}

function run(on) {
  game.running = on;
  $("run").firstChild.textContent = on ? "Pause " : "Run ";
  $("run").setAttribute("aria-pressed", on);
  if (on) requestAnimationFrame(tick);
}

// A whole horizon: every row is kept, so that one can go back and forth between them.
const strip = { start: null, rows: [], cells: [], row: 0, timer: 0 };
const schedule = () => horizonSchedule(about.horizon, Number($("budget").value), Number($("decay").value));

async function imagineStrip() {
  if (game.busy) return;
  game.busy = true;
  stop();
  $("strips").classList.add("stale");
  try {
    if (game.dream.ended) await begin(); // nothing follows an end
    strip.start = game.dream.picture;
    const begun = performance.now(), rows = [];
    for await (const row of game.dream.strip(Number($("budget").value), Number($("decay").value))) rows.push(row);
    strip.spent = performance.now() - begun;
    strip.said = await game.dream.judged(rows.at(-1).frames);
    for (const row of rows) {
      row.pictures = [];
      for (const z of row.frames) row.pictures.push(await game.dream.model.decode(z));
    }
    strip.rows = rows;
    strip.schedule = schedule();
  } finally {
    game.busy = false;
  }
  $("strips").classList.remove("stale");
  $("row").max = strip.rows.length - 1;
  $("strip-note").textContent = `${Math.round(strip.spent)} ms for ${about.horizon} frames in ${strip.rows.length - 1} steps`;
  layCells();
  if (calm()) showRow(strip.rows.length - 1);
  else sweep();
}

function layCells() {
  strip.cells = strip.rows[0].frames.map(() => {
    const cell = {
      chip: make("span", { class: "chip" }), bars: about.actions.map(() => make("i")), view: make("canvas", { role: "img" }),
      tau: make("span", { class: "tau" }, make("i"), make("b", {})), said: make("span", { class: "said" }, make("span"), make("span")),
    };
    cell.element = make("div", { class: "cell" }, cell.chip, make("span", { class: "policy" }, ...cell.bars), cell.view, cell.tau, cell.said);
    return cell;
  });
  const { width, height } = strip.start;
  const now = make("canvas", { width, height, role: "img", "aria-label": "The frame it goes on from" });
  now.getContext("2d").putImageData(strip.start, 0, 0);
  $("cells").replaceChildren(heading(now, ["reward", "end"]), ...strip.cells.map((cell) => cell.element));
  $("strips").style.setProperty("--frames", strip.cells.length);
}

function showRow(index) {
  strip.row = index;
  $("row").value = index;
  $("row-value").textContent = `step ${index} of ${strip.rows.length - 1}`;
  const { tau, actions, policies, pictures } = strip.rows[index];
  const over = strip.said.findIndex((said) => said.end > 0.5);
  strip.cells.forEach((cell, t) => {
    Object.assign(cell.view, { width: pictures[t].width, height: pictures[t].height });
    cell.view.getContext("2d").putImageData(pictures[t], 0, 0);
    const name = space.told(actions[t]), before = strip.rows[index - 1]?.actions[t];
    const shares = space.shares(policies[t]);
    cell.view.setAttribute("aria-label", `Frame ${t + 1}, time ${tau[t]}, action ${name}`);
    const begun = tau[t] > 0 || t === 0;
    cell.chip.textContent = begun ? (space.entries ? name : short(name)) : "·";
    cell.chip.classList.toggle("changed", begun && before !== undefined && space.changed(actions[t], before));
    cell.bars.forEach((bar, a) => {
      bar.style.height = begun ? `${Math.max(4, 100 * shares[a])}%` : "4%";
      bar.classList.toggle("taken", begun && a === actions[t]);
    });
    cell.tau.firstChild.style.width = `${100 * tau[t]}%`;
    cell.tau.lastChild.textContent = tau[t] === 0 || tau[t] === 1 ? tau[t] : tau[t].toFixed(2);
    cell.element.classList.toggle("clean", tau[t] === 1);
    cell.element.classList.toggle("unborn", tau[t] === 0);
    cell.element.classList.toggle("after", tau[t] === 1 && over >= 0 && t > over);
    const [reward, end] = cell.said.children, said = strip.said[t];
    reward.textContent = tau[t] === 1 ? signed(said.reward) : "";
    reward.classList.toggle("good", said.reward > 0.1);
    reward.classList.toggle("bad", said.reward < -0.1);
    end.textContent = tau[t] === 1 ? percent(said.end).replace(" ", "") : "";
  });
  drawMatrix();
}

const drawMatrix = paced(canvas($("matrix"), (context, width, height) => {
  if (strip.rows.length) matrix(context, width, height, strip.schedule, strip.row);
}));

function stop() {
  clearInterval(strip.timer);
  strip.timer = 0;
  $("sweep").classList.remove("on");
}

function sweep() {
  stop();
  showRow(0);
  $("sweep").classList.add("on");
  strip.timer = setInterval(() => {
    if (strip.row + 1 < strip.rows.length) showRow(strip.row + 1);
    if (strip.row + 1 === strip.rows.length) stop();
  }, 450);
}

function view(name) {
  for (const tab of ["play", "imagine"]) {
    $(`tab-${tab}`).setAttribute("aria-selected", tab === name);
    $(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
    $(tab).hidden = tab !== name;
  }
  if (name === "imagine") { run(false); imagineStrip(); }
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const playing = !$("play").hidden;
  if (playing && space.entries && event.key === "Enter" && !event.target.matches?.("button")) { act(game.controls.action); return; }
  if (event.target.matches?.("input, [role=tab]")) return;
  const id = (playing ? { p: "run", ".": "step", r: "reset" } : { n: "noise" })[event.key.toLowerCase()];
  if (id && !event.repeat) $(id).click();
  if (id || (playing && keys.down(event))) event.preventDefault();
}

function slider(id, value, text = (x) => x) {
  $(id).value = value;
  const write = () => { $(`${id}-value`).textContent = text($(id).value); };
  $(id).addEventListener("input", write);
  write();
}

function wire() {
  game.controls = space.entries ? new Levers(space, () => act(game.controls.action)) : new Buttons(space, keys);
  $("policy").replaceChildren(...about.actions.map((name) => make("li", {},
    make("span", { class: "name" }, name.toLowerCase()), make("span", { class: "bar" }, make("i")), make("span", { class: "share" }))));
  $("policy").classList.toggle("many", about.actions.length > 6);
  radio("player", (player) => { game.player = player; });
  slider("speed", 8, (x) => `${x} a second`);
  slider("steps", 2);
  $("budget").max = Math.max(32, 2 * about.horizon);
  $("decay").max = about.horizon;
  slider("budget", about.budget);
  slider("decay", about.decay_horizon);
  for (const id of ["budget", "decay"]) $(id).addEventListener("change", imagineStrip);
  $("run").onclick = () => run(!game.running);
  $("step").onclick = () => act();
  $("reset").onclick = async () => { if (!game.busy) { game.busy = true; await begin(); game.busy = false; } };
  $("noise").onclick = imagineStrip;
  $("sweep").onclick = () => (strip.timer ? stop() : strip.rows.length && sweep());
  $("row").oninput = () => { stop(); if (strip.rows.length) showRow(Number($("row").value)); };
  for (const name of ["play", "imagine"]) $(`tab-${name}`).onclick = () => view(name);
  addEventListener("keydown", key);
  addEventListener("keyup", (event) => keys.up(event));
  addEventListener("blur", () => keys.release());
  addEventListener("unhandledrejection", (event) => toast(`The dream has stopped: ${event.reason?.message ?? event.reason}`));
  addEventListener("click", (event) => { if (event.detail > 0 && event.target.closest("button, label")) document.activeElement?.blur(); });
}

// The median and the fastest tenth of the times of a frame, after a warm-up, as rates.
async function framesASecond(repeats = 60) {
  const dream = new Dream(game.dream.model, uniforms(1)), times = [];
  await dream.begin(about.starts[0]);
  for (let i = 0; i < repeats + 10; i++) {
    const begun = performance.now();
    await dream.step(space.example(i), 2);
    times.push(performance.now() - begun);
  }
  const sorted = times.slice(10).sort((a, b) => a - b);
  const rate = (share) => 1000 / sorted[Math.floor(share * repeats)];
  return { median: rate(0.5), fastest_tenth: rate(0.1) };
}

async function main() {
  wire();
  const model = await Model.open(about, space, asked.get("backend"), uniforms(1));
  $("pace").title = model.note ? `WebGPU is not used: ${model.note}` : "";
  game.dream = new Dream(model, random);
  await begin();
  $("loading").hidden = true;
  globalThis.horizon = { about, model, game, imagine, nextFrame, horizonSchedule, framesASecond, compared, chosen }; // for the console
}

main().catch((error) => toast(`The dream cannot run here: ${error.message}`));
