// Imagine: the whole horizon as strips that become clear row by row.

import { $, make, heading, signed, number, percent, radio, canvas, settled, paced, calm } from "./page.js";
import { picture } from "./link.js";
import { short, told } from "./keys.js";
import { matrix } from "./draw.js";

const SAID = {
  stable: "the same dice at every step",
  coupled: "kept as far as the policy allows",
  naive: "drawn anew at every step",
};
const SAID_OF_VECTORS = { stable: "the same noise at every step", naive: "fresh noise at every step" };

export class Imagine {
  constructor(send, page) {
    this.send = send;
    this.page = page;
    this.place = null;
    this.seed = 1;
    this.row = 0;
    this.asked = "";
    this.stripsMade = null;
    this.setKind = radio("kind", () => this.limits());
    for (const id of ["budget", "decay"]) {
      $(id).oninput = () => { this.write(); this.later(); };
    }
    $("samplers").onchange = (event) => {
      if (!this.samplers().length) event.target.checked = true;
      this.ask();
    };
    $("noise").onclick = () => { this.seed = Math.floor(Math.random() * 2 ** 31); this.ask(); };
    $("now").onclick = () => { this.place = null; this.asked = ""; this.ask(); };
    $("row").oninput = () => { this.stop(); this.show(Number($("row").value)); };
    $("sweep").onclick = () => (this.timer ? this.stop() : this.sweep());
    this.later = settled(() => this.ask());
    this.drawMatrix = paced(canvas($("matrix"), (context, width, height) => {
      if (this.strip_) this.rowAt = matrix(context, width, height, this.strip_.schedule, this.row);
    }));
    $("matrix").onclick = (event) => {
      if (!this.rowAt) return;
      this.stop();
      this.show(this.rowAt(event.offsetY));
    };
  }

  hello(hello) {
    this.names = hello.actions;
    this.place = null;
    this.asked = "";
    this.strip_ = null;
    $("strips").replaceChildren();
    const coupled = $("samplers").querySelector("input[value=coupled]");
    coupled.disabled = Boolean(hello.entries && !hello.entries[0].whole);
    if (coupled.disabled) coupled.checked = false;
    coupled.parentElement.title = coupled.disabled ? "For vectors, fixed noise is an optimal coupling already" : "";
    this.setKind("horizon");
    $("budget").max = hello.budgets.horizon.most;
    $("decay").max = hello.horizon;
    this.limits(false);
    $("budget").value = hello.budget;
    $("decay").value = hello.decay_horizon;
    this.write();
  }

  shown() {
    // The strip of this very moment and these settings may be there already.
    if (this.page.mine) this.ask();
    this.drawMatrix();
  }

  from(place) {
    this.place = place;
    this.asked = "";
  }

  key(event) {
    const id = { n: "noise" }[event.key.toLowerCase()];
    if (id) { $(id).click(); return true; }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && this.strip_) { this.stop(); this.show(this.row + step); return true; }
    if (event.key === " ") { $("sweep").click(); return true; }
    return false;
  }

  kind() { return $("kind").querySelector("input:checked").value; }

  samplers() { return [...$("samplers").querySelectorAll("input:checked")].map((input) => input.value); }

  // Budgets that the kind of schedule can have.
  limits(ask = true) {
    const { least, most, step } = this.page.hello.budgets[this.kind()];
    const budget = Number($("budget").value);
    Object.assign($("budget"), { min: least, max: most, step });
    $("budget").value = Math.max(least, Math.round(budget / step) * step);
    $("decay").disabled = this.kind() !== "horizon";
    $("decay-label").classList.toggle("off", this.kind() !== "horizon");
    this.write();
    if (ask) this.ask();
  }

  write() {
    $("budget-value").textContent = $("budget").value;
    $("decay-value").textContent = this.kind() === "horizon" ? $("decay").value : "–";
  }

  ask() {
    const wish = {
      kind: this.kind(), budget: Number($("budget").value), decay_horizon: Number($("decay").value),
      samplers: this.samplers(), seed: this.seed, place: this.place,
    };
    const asked = JSON.stringify([wish, this.place ? 0 : this.page.frame]);
    if (asked === this.asked) return;
    this.asked = asked;
    $("strips").classList.add("stale");
    this.send("imagine", wish);
  }

  async strip(strip, blobs) {
    if (!this.names) return;
    const [context, ...rest] = blobs;
    const sheets = await Promise.all([context, ...rest.filter((_, i) => i % 2 === 0)].map(picture));
    const policies = rest.filter((_, i) => i % 2 === 1);
    this.strip_ = strip;
    const size = sheets[0].height;
    $("origin").textContent = strip.recorded ? "From a recorded frame." : "From the present of the game.";
    const bodies = strip.strips.map((one, i) => new Strip(strip, one, this.names, size, sheets[0], sheets[i + 1], policies[i]));
    this.bodies = bodies;
    $("strips").replaceChildren(...bodies.map((body) => body.element));
    $("strips").style.setProperty("--frames", strip.schedule[0].length);
    $("strips").classList.toggle("narrow", strip.schedule[0].length > 9);
    $("strips").classList.remove("stale");
    $("row").max = strip.schedule.length - 1;
    const moved = strip.schedule.slice(1).map((row, b) => row.filter((tau, t) => tau > strip.schedule[b][t]).length);
    $("matrix-note").textContent = `up to ${Math.max(...moved)} of ${strip.schedule[0].length} frames move in a step`;
    if (calm() || this.page.view !== "imagine") this.show(strip.schedule.length - 1);
    else this.sweep();
  }

  // Denoise again, before the eyes.
  sweep() {
    this.stop();
    const last = this.strip_.schedule.length - 1;
    const pause = Math.min(450, Math.max(60, 2400 / (last + 1)));
    this.show(0);
    $("sweep").classList.add("on");
    this.timer = setInterval(() => {
      if (this.row >= last) this.stop();
      else this.show(this.row + 1);
    }, pause);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    $("sweep").classList.remove("on");
  }

  show(row) {
    const last = this.strip_.schedule.length - 1;
    this.row = Math.max(0, Math.min(last, row));
    $("row").value = this.row;
    $("row-value").textContent = `step ${this.row} of ${last}`;
    for (const body of this.bodies) body.show(this.row);
    this.drawMatrix();
  }
}

// One sampler's frames, with the action, the policy and the time of each.
class Strip {
  constructor(all, one, names, size, context, sheet, policy) {
    Object.assign(this, { all, one, names, size, sheet, policy });
    const columns = all.schedule[0].length;
    const now = make("canvas", { width: size, height: size, role: "img", "aria-label": "The last real frame" });
    now.getContext("2d").drawImage(context, context.width - size, 0, size, size, 0, 0, size, size);
    this.cells = Array.from({ length: columns }, (_, t) => this.cell(t));
    const first = heading(now, ["reward", "value", "end"]);
    const said = Array.isArray(one.actions.at(-1)[0]) ? SAID_OF_VECTORS : SAID;
    this.element = make("section", { class: "strip", "data-sampler": one.sampler },
      make("header", {}, make("h3", {}, one.sampler), make("span", { class: "quiet" }, said[one.sampler]),
        make("span", { class: "push" }), this.counts = make("span", { class: "counts" }),
        make("span", { class: "time", title: `${one.engine} engine` }, `${one.milliseconds} ms`)),
      make("div", { class: "cells" }, first, ...this.cells.map((c) => c.element)));
    const over = one.end.findIndex((p) => p > 0.5);
    this.over = over < 0 ? columns : over;
  }

  cell(t) {
    const view = make("canvas", { width: this.size, height: this.size, role: "img" });
    const action = make("span", { class: "chip" });
    const bars = this.names.map(() => make("i"));
    const time = make("span", { class: "tau" }, make("i"), make("b"));
    const readings = ["reward", "value", "end"].map((title) => make("span", { title }));
    const element = make("div", { class: "cell" }, action, make("span", { class: "policy" }, ...bars), view, time,
      make("span", { class: "said" }, ...readings));
    return { element, view, action, bars, time, readings };
  }

  show(row) {
    const { all, one, names, size } = this;
    const columns = all.schedule[0].length;
    let changes = 0, late = 0;
    for (let b = 0; b <= row; b++) for (let t = 0; t < columns; t++) {
      changes += one.changed[b][t];
      late += one.late[b][t];
    }
    this.counts.textContent = changes === 1 ? "1 change" : `${changes} changes`;
    if (late) this.counts.textContent += `, ${late} after the frame was clean`;
    this.counts.classList.toggle("some", changes > 0);
    this.cells.forEach((cell, t) => {
      const tau = all.schedule[row][t], action = one.actions[row][t];
      cell.view.getContext("2d").drawImage(this.sheet, t * size, row * size, size, size, 0, 0, size, size);
      const name = told(names, action);
      cell.view.setAttribute("aria-label", `Frame ${t + 1}, time ${tau}, action ${name ?? "none yet"}`);
      const begun = name !== undefined && (tau > 0 || row > 0 || t === 0);
      cell.action.textContent = begun ? (Array.isArray(action) ? name : short(name)) : "·";
      cell.action.classList.toggle("vector", Array.isArray(action));
      cell.action.title = begun ? name : "not asked yet";
      const before = [...Array(row + 1).keys()].filter((b) => one.changed[b][t]).length;
      cell.action.classList.toggle("changed", Boolean(one.changed[row][t]));
      cell.action.classList.toggle("late", Boolean(one.late[row][t]));
      cell.action.classList.toggle("once", before > 0);
      cell.action.dataset.changes = before > 1 ? before : "";
      cell.bars.forEach((bar, a) => {
        const share = this.policy[(row * columns + t) * names.length + a] / 255;
        bar.style.height = begun ? `${Math.max(4, 100 * share)}%` : "4%";
        bar.classList.toggle("taken", begun && a === action);
      });
      cell.time.firstChild.style.width = `${100 * tau}%`;
      cell.time.lastChild.textContent = tau === 0 || tau === 1 ? tau : tau.toFixed(2);
      cell.element.classList.toggle("clean", tau === 1);
      cell.element.classList.toggle("unborn", tau === 0);
      cell.element.classList.toggle("after", tau === 1 && t > this.over);
      const said = tau === 1 ? [signed(one.reward[t]), number(one.value[t]), percent(one.end[t]).replace(" ", "")] : ["", "", ""];
      cell.readings.forEach((reading, i) => { reading.textContent = said[i]; });
      cell.readings[0].classList.toggle("good", tau === 1 && one.reward[t] > 0.1);
      cell.readings[0].classList.toggle("bad", tau === 1 && one.reward[t] < -0.1);
    });
  }
}
