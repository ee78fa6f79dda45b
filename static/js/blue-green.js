// Listener panel: writes the chosen listeners into the blue/green step of the pipeline's text.

import { find } from "./dom.js";
import { replace } from "./editor-text.js";

const STEP = /^( *)type: *["']?EcsBlueGreenCreateService["']?\s*(?:#.*)?$/;

const indentOf = (line) => line.search(/\S|$/);
const isBlank = (line) => !line.trim();

// First and last line of the step with its type in line `at`; its keys start in `column`.
function blockAround(lines, at, column) {
  const isOutside = (line) => !isBlank(line) && indentOf(line) < column;
  const before = lines.slice(0, at).findLastIndex(isOutside);
  const after = lines.slice(at).findIndex(isOutside);
  const end = after < 0 ? lines.length : at + after;
  const last = lines.slice(0, end).findLastIndex((line) => !isBlank(line));
  return [before + 1, last];
}

function stepsIn(lines) {
  return lines.flatMap((line, at) => {
    const match = line.match(STEP);
    return match ? [{ at, column: match[1].length }] : [];
  });
}

// The lines of a spec with each value written over the one that is there, or added; an empty one is left out.
function specWith(children, values, indent) {
  const left = new Map(Object.entries(values));
  const unchanged = children.flatMap((line) => {
    const key = line.trim().match(/^([A-Za-z]+) *:/)?.[1];
    if (indentOf(line) !== indent || !left.has(key)) return [line];
    const value = left.get(key);
    left.delete(key);
    return value ? [`${" ".repeat(indent)}${key}: ${value}`] : [];
  });
  const added = [...left].filter(([, value]) => value);
  return [...unchanged, ...added.map(([key, value]) => `${" ".repeat(indent)}${key}: ${value}`)];
}

// The block of a step with the values in its spec.
function blockWith(block, column, values) {
  const at = block.findIndex((line) => indentOf(line) === column && /^ *spec *:/.test(line));
  if (at < 0) return [...block, `${" ".repeat(column)}spec:`, ...specWith([], values, column + 2)];
  let end = at + 1;
  while (end < block.length && (isBlank(block[end]) || indentOf(block[end]) > column)) end += 1;
  const children = block.slice(at + 1, end);
  const first = children.find((line) => !isBlank(line));
  const indent = first ? indentOf(first) : column + 2;
  const head = block[at].replace(/spec *:.*$/, "spec:");
  return [...block.slice(0, at), head, ...specWith(children, values, indent), ...block.slice(end)];
}

// Writes the values into the step nearest to the caret; the number of its line, or 0 if there is none.
export function write(area, values) {
  const lines = area.value.split("\n");
  const caret = area.value.slice(0, area.selectionStart).split("\n").length - 1;
  const steps = stepsIn(lines).sort((a, b) => Math.abs(a.at - caret) - Math.abs(b.at - caret));
  if (!steps.length) return 0;
  const { at, column } = steps[0];
  const [first, last] = blockAround(lines, at, column);
  const start = lines.slice(0, first).join("\n").length + (first ? 1 : 0);
  const old = lines.slice(first, last + 1);
  replace(area, start, start + old.join("\n").length, blockWith(old, column, values).join("\n"));
  return at + 1;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-insert-listeners]");
  if (!button) return;
  const { loadBalancer, prodListener, prodRule, stageListener, stageRule } = button.dataset;
  const line = write(find("#pipeline-yaml"), {
    loadBalancer,
    prodListener,
    prodListenerRuleArn: prodRule,
    stageListener,
    stageListenerRuleArn: stageRule,
  });
  find("[data-inserted]").textContent = line
    ? `Inserted into the step in line ${line}.`
    : "The YAML has no EcsBlueGreenCreateService step. Add one, then insert again.";
});
