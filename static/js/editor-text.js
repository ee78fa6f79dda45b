// Edits of a textarea that the browser's undo can revert.

const INDENT = "  ";

export function replace(area, from, to, text) {
  area.focus();
  area.setSelectionRange(from, to);
  if (from === to && !text) return;
  // The one way that keeps native undo; where a browser refuses it, the text still changes.
  const done = text ? document.execCommand("insertText", false, text) : document.execCommand("delete");
  if (done) return;
  area.setRangeText(text, from, to, "end");
  area.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

export const lineStart = (text, at) => text.lastIndexOf("\n", at - 1) + 1;

export function lineEnd(text, at) {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

export function placeOf(text, at) {
  const start = lineStart(text, at);
  let row = 0;
  for (let next = text.indexOf("\n"); next >= 0 && next < at; next = text.indexOf("\n", next + 1)) row += 1;
  return { row, column: at - start };
}

// Moves the chosen lines, or the one with the caret, in or out by one step.
export function indent(area, out) {
  const text = area.value;
  const { selectionStart: from, selectionEnd: to } = area;
  if (from === to && !out) return replace(area, from, to, INDENT);
  const start = lineStart(text, from);
  const end = lineEnd(text, to > from && text[to - 1] === "\n" ? to - 1 : to);
  const lines = text.slice(start, end).split("\n");
  const moved = lines.map((line) => (out ? line.replace(/^ {1,2}|^\t/, "") : line && INDENT + line));
  if (moved.join("\n") === lines.join("\n")) return undefined;
  replace(area, start, end, moved.join("\n"));
  const first = Math.max(start, from + moved[0].length - lines[0].length);
  const total = moved.join("\n").length - (end - start);
  area.setSelectionRange(from === to ? first : start, from === to ? first : end + total);
  return undefined;
}

// What a new line begins with: the indentation of this one, and one step more where something opens.
export function nextIndent(language, before) {
  const own = before.match(/^[ \t]*/)[0];
  if (language === "json") return /[{[]\s*$/.test(before) ? own + INDENT : own;
  if (language !== "yaml") return own;
  const items = before.slice(own.length).match(/^(?:- +)*/)[0];
  if (/:\s*$|[:-]\s+[|>][-+\d]{0,2}\s*$/.test(before)) return own + " ".repeat(items.length) + INDENT;
  return own + (/:\s/.test(before) ? " ".repeat(items.length) : "");
}

export function newLine(area, language) {
  const { selectionStart: from, selectionEnd: to, value } = area;
  replace(area, from, to, `\n${nextIndent(language, value.slice(lineStart(value, from), from))}`);
}

// Backspace among the leading spaces takes a whole step. Says whether it did.
export function backStep(area) {
  const { selectionStart: from, selectionEnd: to, value } = area;
  const before = value.slice(lineStart(value, from), from);
  if (from !== to || before.length < 2 || before.length % 2 || before.trim()) return false;
  replace(area, from - 2, from, "");
  return true;
}
