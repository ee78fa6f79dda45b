// Copying of log lines: the selected ones, or all that are shown; missing lines are loaded first.

import { copyText } from "./dialogs.js";
import { announce } from "./dom.js";
import { plainOf } from "./log-lines.js";

const MOST = 20_000;

function* range(first, last) {
  for (let number = first; number <= last; number += 1) yield number;
}

// Loads a line; one answer may not reach it, as long lines are sent a few at a time.
async function load(pane, number) {
  for (let before = null; !pane.lines.get(number); ) {
    await pane.onNeed(number);
    if (pane.lines.count === before) return undefined;
    before = pane.lines.count;
  }
  return pane.lines.get(number);
}

// The texts up to the first line that cannot be loaded; a selection may go beyond the end.
async function read(pane) {
  const { picked } = pane.display;
  const last = Math.max(pane.lines.last, pane.knownLast);
  const texts = [];
  for (const number of picked ? range(picked[0], Math.min(picked[1], last)) : pane.view.numbers()) {
    if (texts.length === MOST) return { texts, rest: "; download the log for all lines" };
    const line = pane.lines.get(number) ?? (await load(pane, number));
    if (!line) return { texts, rest: `; line ${number.toLocaleString()} could not be loaded` };
    texts.push(plainOf(line));
  }
  return { texts, rest: "" };
}

// Returns whether all lines were copied.
export async function copyLines(pane) {
  const { texts, rest } = await read(pane);
  const done = await copyText(`${texts.join("\n")}\n`);
  announce(done ? `${texts.length.toLocaleString()} lines copied${rest}` : "The browser does not allow copying.");
  return done && !rest;
}
