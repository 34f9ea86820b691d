// Browse: stored episodes with their reconstruction, and the curves of training.

import { $, make, signed, number, percent, canvas, colour, paced } from "./page.js";
import { picture } from "./link.js";
import { told } from "./keys.js";
import { lines } from "./draw.js";

const ENDS = { terminated: "ended", truncated: "cut", open: "goes on" };
const PAGE = 50;

export class Browse {
  constructor(send, page) {
    this.send = send;
    this.page = page;
    this.place = null;
    $("source").onchange = () => { this.list(0); $("source").blur(); };
    $("more").onclick = () => this.list($("episodes").children.length);
    $("frame").oninput = () => { this.stop(); this.show(Number($("frame").value)); };
    $("roll").onclick = () => (this.timer ? this.stop() : this.roll());
    $("imagine-here").onclick = () => { this.page.imagine(this.here()); };
    $("play-here").onclick = () => { send("reset", { place: this.here() }); page.show("play"); };
    $("newest").onclick = () => send("load", { agent: page.hello.agent, snapshot: "newest" });
    this.drawChart = paced(canvas($("reel-chart"), (context, width, height) => this.chart(context, width, height)));
  }

  hello() {
    this.place = null;
    this.look_ = null;
    $("episodes").replaceChildren();
  }

  shown() {
    this.send("sources");
    this.send("curves");
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && this.look_) { this.stop(); this.show(this.at + step); return true; }
    if (event.key === " ") { $("roll").click(); return true; }
    return false;
  }

  sources({ sources }) {
    const before = $("source").value;
    $("source").replaceChildren(...sources.map((s, i) => make("option", { value: i }, `${s.name} (${s.episodes})`)));
    if (before && before < sources.length) $("source").value = before;
    if (sources.length) this.list(0);
    for (const id of ["imagine-here", "play-here", "roll", "frame"]) $(id).disabled = !sources.length;
  }

  list(offset) {
    this.send("episodes", { source: Number($("source").value), offset });
  }

  episodes({ source, offset, episodes }) {
    const rows = episodes.map((e) => {
      const place = { source, episode: e.episode, frame: 0 };
      const open = make("button", { class: "plain", "aria-label": `Episode ${e.episode}`, onclick: () => this.open(place) }, e.episode);
      return make("tr", { "data-episode": e.episode, onclick: () => this.open(place) },
        make("td", {}, open), make("td", {}, e.steps), make("td", {}, signed(e.return)), make("td", {}, ENDS[e.ended]));
    });
    if (offset === 0) $("episodes").replaceChildren(...rows); else $("episodes").append(...rows);
    $("more").hidden = episodes.length < PAGE;
    if (offset === 0 && episodes.length && !(this.place && this.place.source === source)) {
      this.open({ source, episode: episodes[0].episode, frame: 0 });
    }
  }

  open(place) {
    this.place = place;
    for (const row of $("episodes").children) {
      row.classList.toggle("chosen", Number(row.dataset.episode) === place.episode);
    }
    this.send("look", { place });
  }

  async look(look, blobs) {
    const [real, again] = await Promise.all(blobs.map(picture));
    this.look_ = Object.assign(look, { real, again, size: real.height });
    $("frame").max = look.actions.length - 1;
    $("reel-legend").replaceChildren(make("span", { class: "accent" }, "value"), make("span", { class: "real" }, "reward"), make("span", { class: "quiet" }, "predicted reward"));
    this.show(0);
  }

  show(at) {
    const look = this.look_, last = look.actions.length - 1;
    this.at = Math.max(0, Math.min(last, at));
    $("frame").value = this.at;
    $("frame-value").textContent = `frame ${look.frame + this.at} of ${look.frame + last}`;
    for (const [id, sheet] of [["reel-real", look.real], ["reel-again", look.again]]) {
      const view = $(id);
      view.width = view.height = look.size;
      view.getContext("2d").drawImage(sheet, this.at * look.size, 0, look.size, look.size, 0, 0, look.size, look.size);
    }
    const action = told(this.page.hello.actions, look.actions[this.at]);
    $("reel-place").textContent = action ? `after ${action.toLowerCase()}, reward ${signed(look.rewards[this.at])}` : "first frame";
    $("reel-said").textContent = `reward ${signed(look.predicted[this.at])}, value ${number(look.values[this.at])}, end ${percent(look.ends[this.at])}`;
    this.drawChart();
  }

  roll() {
    const last = this.look_.actions.length - 1;
    this.show(this.at >= last ? 0 : this.at);
    $("roll").classList.add("on");
    this.timer = setInterval(() => { if (this.at >= last) this.stop(); else this.show(this.at + 1); }, 160);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    $("roll").classList.remove("on");
  }

  here() {
    return { ...this.place, frame: this.look_.frame + this.at };
  }

  chart(context, width, height) {
    if (!this.look_) return;
    const { rewards, predicted, values } = this.look_;
    const points = (list) => list.map((v, i) => [i, v]);
    lines(context, width, height, [
      { points: points(rewards), colour: colour("real"), bars: true },
      { points: points(predicted), colour: colour("quiet"), width: 1 },
      { points: points(values), colour: colour("accent"), width: 2 },
    ], { from: 0, to: Math.max(1, values.length - 1), mark: this.at });
  }

  curves(said) {
    const done = said.finished ? `${said.epochs} epochs` : `epoch ${said.epochs} of ${said.of}, training goes on`;
    $("training-note").textContent = said.of ? `${done}; over ${said.horizontal}` : "an agent without its run has no curves";
    $("newest").hidden = !said.newest;
    $("newest").textContent = `Load ${said.newest}`;
    $("curves").replaceChildren(...said.curves.map((curve) => {
      const view = make("canvas", { height: 120, role: "img", "aria-label": `${curve.label}: ${number(curve.points.at(-1)[1])} at the end` });
      const figure = make("figure", {}, make("figcaption", {}, make("span", {}, curve.label), make("b", {}, short(curve.points.at(-1)[1]))), view);
      const marks = curve.label.startsWith("return") ? said.landmarks : {};
      canvas(view, (context, width, height) => lines(context, width, height, [{ points: curve.points, colour: colour("accent"), width: 1.5 }], { marks }));
      return figure;
    }));
  }
}

const short = (v) => (Math.abs(v) < 0.01 && v !== 0 ? v.toExponential(1).replace("-", "−") : number(v));
