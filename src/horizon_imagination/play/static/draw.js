// Charts on canvases: lines over steps, and the matrix of a schedule.

import { colour, number } from "./page.js";

// Series of [x, y] as lines or as bars from zero, with the range of y written at the left.
export function lines(context, width, height, series, { from, to, mark = null, marks = {} } = {}) {
  context.clearRect(0, 0, width, height);
  const all = series.flatMap((s) => s.points.map((p) => p[1])).concat(Object.values(marks)).filter(Number.isFinite);
  if (!all.length) return;
  let low = Math.min(0, ...all), high = Math.max(0, ...all);
  if (high - low < 1e-9) high = low + 1;
  const left = 44, right = 8, top = 8, bottom = 16;
  from ??= Math.min(...series.flatMap((s) => s.points.map((p) => p[0])));
  to ??= Math.max(...series.flatMap((s) => s.points.map((p) => p[0])));
  const x = (v) => left + (width - left - right) * (v - from) / Math.max(to - from, 1e-9);
  const y = (v) => top + (height - top - bottom) * (high - v) / (high - low);
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  context.fillStyle = colour("quiet");
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const v of new Set([low, 0, high])) {
    if (v === 0 && Math.min(y(low) - y(0), y(0) - y(high)) < 12 && low !== 0 && high !== 0) continue;
    context.fillText(axis(v), left - 8, y(v));
    context.beginPath();
    context.moveTo(left, Math.round(y(v)) + 0.5);
    context.lineTo(width - right, Math.round(y(v)) + 0.5);
    context.stroke();
  }
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText(axis(from), left, height - 2);
  context.textAlign = "right";
  context.fillText(axis(to), width - right, height - 2);
  for (const [name, v] of Object.entries(marks)) {
    context.setLineDash([3, 4]);
    context.beginPath();
    context.moveTo(left, y(v));
    context.lineTo(width - right, y(v));
    context.stroke();
    context.setLineDash([]);
    context.textAlign = "right";
    context.fillText(name, width - right, y(v) + (y(v) < height / 2 ? 12 : -4));
  }
  const slot = (width - left - right) / Math.max(to - from, 1);
  for (const s of series) {
    context.strokeStyle = context.fillStyle = s.colour;
    context.globalAlpha = s.bars ? 0.45 : 1;
    if (s.bars) {
      const wide = Math.min(10, Math.max(1, slot - 1));
      for (const [a, b] of s.points) context.fillRect(x(a) - wide / 2, Math.min(y(0), y(b)), wide, Math.abs(y(b) - y(0)));
    } else {
      context.lineWidth = s.width ?? 1.5;
      context.lineJoin = "round";
      context.beginPath();
      s.points.forEach(([a, b], i) => (i ? context.lineTo(x(a), y(b)) : context.moveTo(x(a), y(b))));
      context.stroke();
      const [a, b] = s.points.at(-1);
      context.beginPath();
      context.arc(x(a), y(b), s.points.length < 60 ? 3 : 0, 0, 7);
      context.fill();
    }
  }
  context.globalAlpha = 1;
  if (mark !== null) {
    context.strokeStyle = colour("text");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(Math.round(x(mark)) + 0.5, top);
    context.lineTo(Math.round(x(mark)) + 0.5, height - bottom);
    context.stroke();
  }
}

function axis(v) {
  if (Math.abs(v) >= 10000) return `${Math.round(v / 1000)}k`;
  if (v !== 0 && Math.abs(v) < 0.01) return v.toExponential(0).replace("-", "−");
  return Number.isInteger(v) ? String(v).replace("-", "−") : number(v);
}

// Rows from noise (above) to clean (below), a column for every frame; returns where the rows are.
export function matrix(context, width, height, schedule, row) {
  context.clearRect(0, 0, width, height);
  const rows = schedule.length, columns = schedule[0].length;
  const left = 30, top = 18, right = 2, bottom = 4;
  const w = (width - left - right) / columns, h = (height - top - bottom) / rows;
  const gap = Math.min(w, h) > 8 ? 1.5 : 0;
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const full = colour("accent"), none = colour("raised");
  schedule.forEach((times, b) => times.forEach((tau, t) => {
    context.fillStyle = none;
    context.fillRect(left + t * w, top + b * h, w - gap, h - gap);
    context.globalAlpha = tau;
    context.fillStyle = full;
    context.fillRect(left + t * w, top + b * h, w - gap, h - gap);
    context.globalAlpha = 1;
  }));
  context.fillStyle = colour("quiet");
  context.textAlign = "left";
  context.fillText("frames →", left, 11);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const b of new Set([0, row, rows - 1])) {
    if (b !== row && Math.abs(b - row) * h < 12) continue;
    context.fillStyle = colour(b === row ? "text" : "quiet");
    context.fillText(b, left - 8, top + (b + 0.5) * h - gap / 2);
  }
  context.textBaseline = "alphabetic";
  context.strokeStyle = colour("text");
  context.lineWidth = 1.5;
  context.strokeRect(left - 1, top + row * h - 1, columns * w + 2 - gap, Math.max(h - gap, 2) + 2);
  return (pixel) => Math.max(0, Math.min(rows - 1, Math.floor((pixel - top) / h)));
}
