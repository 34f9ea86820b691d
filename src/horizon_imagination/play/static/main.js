// The page: tabs, theme, who plays, and which view hears which message.

import { open } from "./link.js";
import { $, make } from "./page.js";
import { Play } from "./play.js";
import { Imagine } from "./imagine.js";
import { Browse } from "./browse.js";

const page = { hello: null, mine: false, frame: 0, view: "play" };
const send = open(hear, (text) => banner(text));
const views = { play: new Play(send, page), imagine: new Imagine(send, page), browse: new Browse(send, page) };
const MESSAGES = {
  state: "play", frame: "play", recorded: "play", strip: "imagine",
  sources: "browse", episodes: "browse", look: "browse", curves: "browse",
};

function hear(message, blobs) {
  if (message.type === "hello") greet(message);
  else if (message.type === "role") role(message);
  else if (message.type === "notice") toast(message.text);
  else if (MESSAGES[message.type]) views[MESSAGES[message.type]][message.type](message, blobs);
}

function greet(hello) {
  page.hello = hello;
  $("agent").replaceChildren(...hello.agents.map((name) => make("option", { value: name }, name)));
  $("agent").value = hello.agent;
  $("agent").disabled = hello.agents.length < 2;
  $("about").textContent = [hello.agent === hello.world ? "" : hello.world, hello.snapshot]
    .filter(Boolean).join(" · ");
  document.title = `${hello.agent} · Horizon`;
  for (const view of Object.values(views)) view.hello(hello);
  views[page.view].shown();
}

function role({ mine, free, viewers }) {
  const gained = mine && !page.mine;
  page.mine = mine;
  document.body.classList.toggle("watching", !mine);
  const others = viewers > 1 ? `${viewers} are connected. ` : "";
  if (gained && page.hello) views[page.view].shown();
  if (mine) banner("");
  else banner(`${others}You are watching.`, free ? "Play" : "Take the controls", () => send("control", { want: true }));
}

let toasting = 0;
function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => { $("toast").hidden = true; }, 6000);
}

function banner(text, action, onAction) {
  const element = $("banner");
  element.hidden = !text;
  element.replaceChildren(text ?? "");
  if (action) element.append(make("button", { onclick: onAction }, action));
}

function show(name) {
  page.view = name;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  history.replaceState(null, "", `#${name}`);
  if (page.hello) views[name].shown();
}

const tabs = [...document.querySelectorAll("[role=tab]")];
for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => show(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    next.focus();
    show(next.id.slice(4));
    event.stopPropagation();
  });
}
page.show = show;
page.imagine = (place) => { views.imagine.from(place); show("imagine"); };

$("agent").addEventListener("change", (event) => {
  send("load", { agent: event.target.value, snapshot: "best" });
  event.target.blur();
});

// A control that was chosen with the pointer gives the keyboard back to the game.
addEventListener("click", (event) => {
  if (event.detail > 0 && event.target.closest("input[type=radio], input[type=checkbox], label, button")) {
    document.activeElement?.blur();
  }
});
addEventListener("pointerup", (event) => { if (event.target.type === "range") event.target.blur(); });

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  const taking = event.key === "Enter" && at.matches?.(".lever input");
  if (at.matches?.("input, select, textarea, [role=tab]") && !taking) return;
  if (at.matches?.("button, a, [tabindex='0']") && [" ", "Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) {
    if (!at.matches("button") || event.key === " " || event.key === "Enter") return;
  }
  if (views[page.view].key?.(event)) event.preventDefault();
});
addEventListener("keyup", (event) => views.play.keyUp(event));
addEventListener("blur", () => views.play.letGo());

const themes = ["auto", "light", "dark"];
function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" }[name];
  $("theme").setAttribute("aria-label", `Theme: ${name}`);
  dispatchEvent(new Event("theme"));
}
$("theme").addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  try { localStorage.setItem("theme", next); } catch { /* a browser that keeps nothing */ }
  theme(next);
});
let kept = "auto";
try { kept = localStorage.getItem("theme") ?? "auto"; } catch { /* likewise */ }
theme(themes.includes(kept) ? kept : "auto");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));

const wanted = location.hash.slice(1);
if (wanted in views) show(wanted);
