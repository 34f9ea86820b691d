// Play: act in the world model, the real world, or both.

import { $, make, signed, number, percent, radio, canvas, colour, paced } from "./page.js";
import { picture } from "./link.js";
import { Keys, keycap, sign, written } from "./keys.js";
import { lines } from "./draw.js";

const TITLES = { model: "World model", real: "Real world" };
const LONGEST = 400;
// A number of an action that the world has no name for; a digit alone would look like its value.
const entryName = (name) => (/^\d+$/.test(name) ? `number ${Number(name) + 1}` : name);

export class Play {
  constructor(send, page) {
    this.send = send;
    this.page = page;
    this.running = false;
    this.history = [];
    this.drawn = Promise.resolve();
    this.keys = new Keys(
      (action) => this.act(action),
      (action) => { if (this.running) send("hold", { action }); },
    );
    this.setWorld = radio("world", (world) => send("choose", { world }));
    this.setPlayer = radio("player", (player) => send("choose", { player }));
    $("run").onclick = () => {
      if (!this.running) this.hold();  // before the first step, which would be idle
      send("run", { on: !this.running });
    };
    $("step").onclick = () => send("step");
    $("reset").onclick = () => send("reset");
    $("record").onclick = () => send("record", { on: !this.recording });
    $("speed").oninput = () => this.speed(Number($("speed").value));
    $("speed").onchange = () => send("choose", { speed: Number($("speed").value) });
    $("steps").oninput = () => { $("steps-value").textContent = $("steps").value; };
    $("steps").onchange = () => send("choose", { steps: Number($("steps").value) });
    this.drawTimeline = paced(canvas($("timeline"), (context, width, height) => this.timeline(context, width, height)));
  }

  shown() { this.drawTimeline(); }

  hello(hello) {
    this.names = hello.entries ? hello.actions.map(entryName) : hello.actions;
    this.history = [];
    this.keys.use(hello.entries ? [] : hello.actions);
    this.screens = {};
    $("screens").replaceChildren();
    for (const value of ["real", "both"]) {
      const input = $("world").querySelector(`input[value=${value}]`);
      input.disabled = !hello.real;
      input.parentElement.title = hello.left_out;
    }
    this.entries = hello.entries;
    this.vector = hello.entries ? [...hello.idle] : null;
    $("actions").replaceChildren(...(hello.entries ? this.sliders() : hello.actions.map((name, i) => this.button(name, i))));
    $("policy").replaceChildren(...this.names.map((name) => make("li", {},
      make("span", { class: "name" }, name.toLowerCase()), make("span", { class: "bar" }, make("i"), hello.entries ? make("b", { hidden: "" }) : ""), make("span", { class: "share" }))));
    $("policy-title").textContent = hello.entries ? "Middle of the policy, and the action taken" : "Policy";
    $("policy").classList.toggle("many", hello.actions.length > 6);
  }

  button(name, index) {
    const cap = keycap(this.names, index);
    const drawn = sign(name);
    const button = make("button", { class: "action", "aria-label": name, title: name },
      make("span", {}, drawn && drawn.length < 3 ? drawn : name.toLowerCase()), cap && cap !== drawn ? make("kbd", {}, cap) : "");
    const down = (event) => { event.preventDefault(); button.setPointerCapture?.(event.pointerId); this.keys.begin(index); };
    const up = () => this.keys.hold(null);
    button.addEventListener("pointerdown", down);
    button.addEventListener("pointerup", up);
    button.addEventListener("pointercancel", up);
    button.addEventListener("click", (event) => { if (event.detail === 0) { this.keys.begin(index); up(); } });
    return button;
  }

  // A slider for every number of an action, and a button that takes it; while the world runs they hold.
  sliders() {
    this.levers = this.names.map((name, i) => {
      const { low, high, whole } = this.entries[i];
      const input = make("input", { type: "range", min: low, max: high, step: whole ? 1 : "any", "aria-label": name });
      const value = make("output", {}, written(this.vector[i]));
      input.value = this.vector[i];
      input.addEventListener("input", () => {
        this.vector[i] = Number(input.value);
        value.textContent = written(this.vector[i]);
        if (this.running) this.hold();
      });
      return make("label", { class: "lever" }, make("span", {}, name.toLowerCase()), input, value);
    });
    const button = make("button", { class: "action", id: "take" }, "act", make("kbd", {}, "↵"));
    button.onclick = () => this.act(this.vector);
    return [...this.levers, button];
  }

  act(action) {
    this.send("act", { action });
  }

  // What the sliders say is done at every step, unless the policy acts.
  hold() {
    if (this.entries && this.player === "person" && this.page.mine) this.send("hold", { action: this.vector });
  }

  key(event) {
    const hotkeys = { p: "run", ".": "step", r: "reset", c: "record" };
    const id = hotkeys[event.key.toLowerCase()] ?? (event.key === " " && !this.keys.hasFire() ? "run" : null);
    if (id) { if (!event.repeat) $(id).click(); return true; }
    if (this.entries && event.key === "Enter") { this.act(this.vector); return true; }
    return this.keys.down(event);
  }

  keyUp(event) { this.keys.up(event); }

  letGo() { this.keys.release(); }

  speed(value) {
    $("speed-value").textContent = `${value} a second`;
  }

  state(state) {
    this.running = state.running;
    this.player = state.player;
    if (state.running) this.hold();
    this.recording = state.recording;
    this.setWorld(state.world);
    this.setPlayer(state.player);
    $("run").firstChild.textContent = state.running ? "Pause " : "Run ";
    $("run").setAttribute("aria-pressed", state.running);
    $("record").classList.toggle("on", state.recording);
    $("record").setAttribute("aria-pressed", state.recording);
    $("record").lastChild.textContent = state.recording ? "Stop recording" : "Record";
    if (state.recording) $("recorded").replaceChildren();
    $("speed").value = state.speed;
    this.speed(state.speed);
    $("steps").value = state.steps;
    $("steps-value").textContent = state.steps;
  }

  // Pictures are decoded side by side and shown in the order in which they came.
  frame(frame, blobs) {
    const decoded = Promise.all(blobs.map(picture));
    this.drawn = this.drawn.then(async () => this.draw(frame, await decoded)).catch(console.error);
  }

  draw(frame, pictures) {
    if (!this.names) return;
    const kept = new Set(frame.worlds.map((w) => w.world));
    for (const world of Object.keys(this.screens)) {
      if (!kept.has(world)) { this.screens[world].figure.remove(); delete this.screens[world]; }
    }
    frame.worlds.forEach((seen, i) => {
      const screen = this.screens[seen.world] ??= this.screen(seen.world);
      screen.show(seen, pictures[i], frame);
    });
    $("screens").classList.toggle("two", frame.worlds.length > 1);
    this.remember(frame);
    this.policy(frame);
    this.page.frame = frame.step;
    $("recorded").dataset.steps = frame.recorded;
    if (this.recording) $("recorded").textContent = `${frame.recorded} steps so far`;
  }

  screen(world) {
    const view = make("canvas", { role: "img", "aria-label": TITLES[world] });
    const title = make("span", {}, TITLES[world]);
    const step = make("span", { class: "quiet" });
    const over = make("p", { class: "over", hidden: "" });
    const cells = ["Reward", "Value", "End"].map((name) => {
      const value = make("b", {}, "–");
      const note = make("small", {});
      return { value, note, cell: make("div", {}, make("span", {}, name), value, note) };
    });
    const figure = make("figure", { class: "screen", "data-world": world },
      make("figcaption", {}, title, step),
      make("div", { class: "view" }, view, over),
      make("div", { class: "readings" }, ...cells.map((c) => c.cell)));
    if (world === "model") $("screens").prepend(figure); else $("screens").append(figure);
    const show = (seen, image, frame) => {
      view.width = image.width;
      view.height = image.height;
      view.getContext("2d").drawImage(image, 0, 0);
      step.textContent = `step ${frame.step} · return ${signed(seen.total)}`;
      const [reward, value, end] = cells;
      reward.value.textContent = signed(seen.received ?? seen.reward);
      reward.note.textContent = seen.received === null ? "predicted" : `predicted ${signed(seen.reward)}`;
      value.value.textContent = number(seen.value);
      value.note.textContent = "expected return";
      end.value.textContent = percent(seen.end);
      end.note.textContent = seen.received === null ? "chance" : seen.ended ? "it has ended" : "chance; goes on";
      over.hidden = !seen.ended;
      over.replaceChildren(make("b", {}, `Over, ${signed(seen.total)}`), make("span", {}, "R begins another"));
      figure.classList.toggle("ended", seen.ended);
    };
    return { figure, show };
  }

  remember(frame) {
    const last = this.history.at(-1);
    if (frame.step === 0 || (last && frame.step < last.step)) this.history = [];
    if (last && last.step === frame.step) this.history.pop();
    this.history.push(frame);
    if (this.history.length > LONGEST) this.history.shift();
    this.drawTimeline();
  }

  timeline(context, width, height) {
    const series = [];
    const names = [];
    for (const [world, shade] of [["model", "accent"], ["real", "real"]]) {
      const of = (pick) => this.history.flatMap((f) => f.worlds.filter((w) => w.world === world).map((w) => [f.step, pick(w)]));
      const values = of((w) => w.value);
      if (!values.length) continue;
      series.push({ points: values, colour: colour(shade), width: 2 });
      series.push({ points: of((w) => w.received ?? w.reward), colour: colour(shade), bars: true });
      names.push(make("span", { class: shade }, world === "model" ? "model" : "real"));
    }
    const end = Math.max(8, ...this.history.map((f) => f.step));
    lines(context, width, height, series, { from: Math.max(0, end - LONGEST), to: end });
    $("timeline-legend").replaceChildren(make("span", {}, "value as a line, reward as bars"), ...names);
  }

  policy(frame) {
    if (this.entries) { this.middle(frame); return; }
    const best = Math.max(...frame.policy);
    [...$("policy").children].forEach((row, i) => {
      const share = frame.policy[i] ?? 0;
      row.querySelector("i").style.width = `${100 * share}%`;
      row.lastChild.textContent = percent(share);
      row.classList.toggle("best", share === best);
      row.classList.toggle("taken", i === frame.action);
    });
    [...$("actions").children].forEach((button, i) => button.classList.toggle("taken", i === frame.action));
  }

  // Where in its range every number of the policy's middle action lies, and what was done.
  middle(frame) {
    [...$("policy").children].forEach((row, i) => {
      const { low, high, whole } = this.entries[i];
      const share = frame.policy[i] ?? 0, value = low + share * (high - low);
      row.querySelector("i").style.width = `${100 * share}%`;
      row.lastChild.textContent = whole ? Math.round(value) : number(value);
      const taken = Array.isArray(frame.action) ? frame.action[i] : null, mark = row.querySelector("b");
      mark.hidden = taken === null;
      mark.style.left = `${100 * (taken - low) / (high - low)}%`;
      row.title = taken === null ? "" : `taken: ${written(taken)}`;
    });
    if (Array.isArray(frame.action) && frame.by === "policy") {
      this.vector = [...frame.action];
      this.levers.forEach((lever, i) => {
        lever.querySelector("input").value = frame.action[i];
        lever.lastChild.textContent = written(frame.action[i]);
      });
    }
  }

  recorded(recorded) {
    if (!recorded.steps) { $("recorded").textContent = "Nothing was played, nothing is kept."; return; }
    const token = new URLSearchParams(location.search).get("token");
    const query = token ? `?token=${encodeURIComponent(token)}` : "";
    const kept = recorded.datasets.map((path) => make("code", { class: "dataset" }, path));
    $("recorded").replaceChildren(`${recorded.steps} steps: `,
      recorded.film ? make("a", { href: `/films/${encodeURIComponent(recorded.name)}${query}` }, "film") : "", ...kept);
  }
}
