// Row of the log pane as nodes.

import { parse } from "./ansi.js";
import { h } from "./dom.js";
import { plainOf } from "./log-lines.js";
import { clock } from "./timestamps.js";

const GLYPHS = { warning: "!", error: "\u00d7", success: "\u2713", event: "\u25c6", command: "$" };
const LEVELS = new Set(["info", ...Object.keys(GLYPHS)]);

export const levelOf = (line) => (LEVELS.has(line.level) ? line.level : "info");

function ranges(text, search) {
  if (!search.needle) return [];
  const hay = search.matchCase ? text : text.toLowerCase();
  const matches = [];
  for (let at = hay.indexOf(search.needle); at >= 0 && matches.length < 200; at = hay.indexOf(search.needle, at + search.needle.length)) {
    matches.push([at, at + search.needle.length]);
  }
  return matches;
}

function cut(piece, offset, marks) {
  const nodes = [];
  let from = 0;
  for (const [start, end] of marks) {
    const a = Math.max(start - offset, from);
    const b = Math.min(end - offset, piece.text.length);
    if (a >= b) continue;
    if (a > from) nodes.push(piece.text.slice(from, a));
    nodes.push(h("mark", {}, piece.text.slice(a, b)));
    from = b;
  }
  if (from < piece.text.length) nodes.push(piece.text.slice(from));
  return piece.css ? [h("span", { class: piece.css }, nodes)] : nodes;
}

function textNodes(line, search) {
  const marks = ranges(plainOf(line), search);
  let offset = 0;
  return parse(line.text).flatMap((piece) => {
    const nodes = cut(piece, offset, marks);
    offset += piece.text.length;
    return nodes;
  });
}

const numberLink = (number) => h("a", { class: "n", href: `#L${number}`, tabindex: "-1" }, String(number));

export function makeHole(number) {
  const row = h("div", { class: "log-row hole" }, numberLink(number), h("span", { class: "g" }), h("span", { class: "x" }, "\u2026"));
  row.dataset.n = number;
  return row;
}

// Opens and closes a unit; `fold` is undefined in the middle of one.
function foldButton(line, fold) {
  const word = line.unit || line.step || "lines";
  const name = `${fold.isFolded ? "Unfold" : "Fold"} ${word}`;
  return h("button", { type: "button", class: "fold", "aria-expanded": String(!fold.isFolded), "aria-label": name, title: name }, fold.isFolded ? "\u25b8" : "\u25be");
}

function foldNote(fold) {
  if (!fold?.isFolded || !fold.hidden) return null;
  return h("span", { class: "sym" }, ` \u2026 ${fold.hidden.toLocaleString()} more`);
}

export function makeRow(line, { search, time, start, fold }) {
  const level = levelOf(line);
  const said = level === "warning" || level === "error" ? h("span", { class: "visually-hidden" }, `${level} `) : null;
  const row = h(
    "div",
    { class: `log-row ${level}${fold && line.number > 1 ? " unit-start" : ""}` },
    numberLink(line.number),
    time === "off" ? null : h("span", { class: "t", title: `${clock(line.at, "utc")} UTC` }, clock(line.at, time, start)),
    fold ? foldButton(line, fold) : null,
    h("span", { class: "g", "aria-hidden": "true" }, GLYPHS[level] || ""),
    h("span", { class: "x" }, said, textNodes(line, search), foldNote(fold)),
  );
  row.dataset.n = line.number;
  return row;
}
