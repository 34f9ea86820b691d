// Small things that every view needs.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// What stands before the frames of a strip: the frame they follow, and what their rows are called.
export function heading(view, said) {
  const label = (text, name) => make("span", { class: `label ${name}` }, text);
  return make("div", { class: "cell now" }, label("action", "a"), label("policy", "p"), view,
    label("τ", "t"), make("span", { class: "label r" }, ...said.map((text) => make("span", {}, text))));
}

export const signed = (x) => (Math.abs(x) < 0.005 ? "" : x > 0 ? "+" : "−") + number(Math.abs(x));

export function number(x) {
  const size = Math.abs(x);
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : 2;
  return x.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
    .replace("-", "−");
}

export const percent = (x) => `${Math.round(100 * x)} %`;

export function radio(id, onChange) {
  const field = $(id);
  field.addEventListener("change", (event) => onChange(event.target.value));
  return (value) => {
    const input = field.querySelector(`input[value="${value}"]`);
    if (input) input.checked = true;
  };
}

// Colours of the theme, for canvases: as the style sheet has them for this theme.
const probe = document.documentElement.appendChild(make("i", { hidden: "" }));
export function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

// A canvas at the resolution of the screen; draws again when its size or the theme changes.
export function canvas(element, draw) {
  const again = () => {
    const { width, height } = element.getBoundingClientRect();
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const context = element.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, width, height);
  };
  new ResizeObserver(again).observe(element);
  addEventListener("theme", again);
  return again;
}

// Calls a function at most once per frame of the screen.
export function paced(f) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; f(); });
  };
}

// Calls a function once its caller has been quiet for a moment.
export function settled(f, milliseconds = 120) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(f, milliseconds); };
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
