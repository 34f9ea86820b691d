// Keys for actions, from nothing but their names: arrows for directions, space for fire, digits for all.

const ARROWS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", " ": "fire" };
const SIGNS = { up: "↑", down: "↓", left: "←", right: "→", fire: "fire" };

// "UPRIGHTFIRE" -> ["fire", "right", "up"]; a name that holds anything else has no parts.
export function parts(name) {
  const found = name.toLowerCase().match(/up|down|left|right|fire/g) ?? [];
  return found.join("") === name.toLowerCase() ? [...new Set(found)].sort() : [];
}

export function sign(name) {
  const found = parts(name);
  return found.length ? found.map((part) => SIGNS[part]).sort().reverse().join("") : "";
}

// How an action is written where there is little room.
export function short(name) {
  return sign(name).replace("fire", "●") || (name.length > 6 ? name.slice(0, 5) + "…" : name);
}

// A number of a vector.
export const written = (x) => String(Math.round(100 * x) / 100).replace("-", "−");

// The name of an action, or the numbers of a vector; nothing where there is none yet.
export function told(names, action) {
  if (Array.isArray(action)) return action.map(written).join(" ");
  return names[action];
}

export function keycap(names, index) {
  const found = parts(names[index]);
  if (found.length === 1) return found[0] === "fire" ? "space" : SIGNS[found[0]];
  return index < 10 ? String((index + 1) % 10) : "";
}

export class Keys {
  // onDown(action) when an action begins, onHold(action or null) whenever what is held changes.
  constructor(onDown, onHold) {
    this.names = [];
    this.pressed = [];
    this.held = null;
    this.onDown = onDown;
    this.onHold = onHold;
  }

  use(names) {
    this.names = names;
    this.release();
  }

  hasFire() {
    return this.names.some((name) => parts(name).includes("fire"));
  }

  down(event) {
    const part = ARROWS[event.key];
    if (part && (part !== "fire" || this.hasFire())) {
      if (!this.pressed.includes(part)) this.pressed.push(part);
      this.begin(this.meant(), event.repeat);
      return true;
    }
    const digit = /^[0-9]$/.test(event.key) ? (Number(event.key) + 9) % 10 : -1;
    if (digit >= 0 && digit < this.names.length) {
      this.begin(digit, event.repeat);
      return true;
    }
    return false;
  }

  up(event) {
    const part = ARROWS[event.key];
    if (part) this.pressed = this.pressed.filter((p) => p !== part);
    else if (!/^[0-9]$/.test(event.key)) return;
    this.hold(this.pressed.length ? this.meant() : null);
  }

  release() {
    this.pressed = [];
    this.hold(null);
  }

  begin(action, repeat) {
    if (action === null) return;
    this.hold(action);
    this.onDown(action, repeat);
  }

  hold(action) {
    if (action === this.held) return;
    this.held = action;
    this.onHold(action);
  }

  // The action of all pressed directions together, or of the latest one that is an action.
  meant() {
    const find = (wanted) => this.names.findIndex((name) => parts(name).join() === wanted.join());
    const together = find([...this.pressed].sort());
    if (together >= 0) return together;
    for (const part of [...this.pressed].reverse()) {
      const alone = find([part]);
      if (alone >= 0) return alone;
    }
    return null;
  }
}
