// Keys of the log: j and k select the next and previous line, J and K extend the selection.

import { announce } from "./dom.js";
import { plainOf } from "./log-lines.js";
import { useKey } from "./row-keys.js";

function findTarget({ display: { picked }, view, sight }, isDown) {
  if (!picked) return sight?.first;
  const from = isDown ? picked[1] : picked[0];
  const row = view.rowOf(from);
  // A filter may hide the selected line: the row after it has its place then.
  const step = view.numberAt(row) === from ? 1 : 0;
  return view.numberAt(Math.min(Math.max(isDown ? row + step : row - 1, 0), view.rowCount - 1));
}

function reveal({ view }, number) {
  const node = view.drawn.get(number)?.node;
  if (node) node.scrollIntoView({ block: "nearest" });
  else view.toNumber(number);
}

// In another tab, or from a row of a table, the keys move through rows.
export function moveLine(log, key) {
  if (!log.scroller.checkVisibility() || document.activeElement.closest("tbody")) return useKey(key.toLowerCase());
  const target = findTarget(log, key.toLowerCase() === "j");
  if (!target) return undefined;
  const { picked } = log.display;
  log.pick(key === "J" || key === "K" ? [Math.min(picked?.[0] ?? target, target), Math.max(picked?.[1] ?? target, target)] : [target, target]);
  reveal(log, target);
  const line = log.lines.get(target);
  announce(`Line ${target}${line ? `: ${plainOf(line)}` : ""}`);
  return undefined;
}
