// What a person acts with: a button for every action, or a slider for every number of one.

import { $, make, percent } from "./page.js";
import { keycap, sign } from "./keys.js";
import { places } from "./actions.js";

function buttonOf(names, index, keys) {
  const name = names[index], cap = keycap(names, index), drawn = sign(name);
  const button = make("button", { class: "action", "aria-label": name, title: name },
    make("span", {}, drawn && drawn.length < 3 ? drawn : name.toLowerCase()), cap && cap !== drawn ? make("kbd", {}, cap) : "");
  button.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    button.setPointerCapture?.(event.pointerId);
    keys.begin(index);
  });
  for (const kind of ["pointerup", "pointercancel"]) button.addEventListener(kind, () => keys.hold(null));
  button.addEventListener("click", (event) => { if (event.detail === 0) { keys.begin(index); keys.hold(null); } });
  return button;
}

// Buttons; the action that was taken is marked.
export class Buttons {
  constructor(space, keys) {
    $("actions").replaceChildren(...space.names.map((_, index) => buttonOf(space.names, index, keys)));
    keys.use(space.names);
    this.action = space.idle; // of who does nothing
  }

  show(action) {
    [...$("actions").children].forEach((button, i) => button.classList.toggle("taken", i === action));
  }
}

// Sliders in the units of the world, and a button that acts; what the policy does moves them.
export class Levers {
  constructor(space, act) {
    this.space = space;
    this.action = space.idle;
    this.levers = space.names.map((name, i) => {
      const { low, high, whole } = space.entries[i];
      const input = make("input", { type: "range", min: low, max: high, step: whole ? 1 : "any", "aria-label": name });
      input.addEventListener("input", () => this.read());
      return { input, value: make("output"), name };
    });
    const button = make("button", { class: "action", id: "take" }, "act", make("kbd", {}, "↵"));
    button.addEventListener("click", act);
    $("actions").replaceChildren(...this.levers.map(({ input, value, name }) => make("label", { class: "lever" },
      make("span", {}, name.toLowerCase()), input, value)), button);
    this.show(this.action);
  }

  read() {
    this.action = this.space.fromWorld(this.levers.map(({ input }) => Number(input.value)));
    this.write();
  }

  write() {
    this.space.toWorld(this.action).forEach((x, i) => { this.levers[i].value.textContent = places(x); });
  }

  show(action) {
    if (!Array.isArray(action)) return; // none has been taken
    this.action = action;
    this.space.toWorld(action).forEach((x, i) => { this.levers[i].input.value = x; });
    this.write();
  }
}

// The policy as bars: probabilities, or where in its range every number of the middle action lies.
export function showPolicy(space, policy) {
  const shares = space.shares(policy), best = Math.max(...shares);
  const middle = space.entries && space.toWorld(space.middle(policy));
  [...$("policy").children].forEach((row, i) => {
    row.querySelector("i").style.width = `${100 * shares[i]}%`;
    row.lastChild.textContent = middle ? places(middle[i]) : percent(shares[i]);
    row.classList.toggle("best", !middle && shares[i] === best);
  });
}
