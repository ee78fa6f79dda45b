// Place of the reader in a part that is drawn anew: the focused control, scrolled regions, and opened details.

import { find, findAll } from "./dom.js";

const REGIONS = "[tabindex='0']";
const ATTRIBUTES = ["href", "data-copy", "value", "formaction", "aria-label", "role"];
const isSaidByText = (node) => node.matches("button:not([data-copy]), summary");

// Says which control this is; buttons of rows differ by the address of their form.
function keyOf(node) {
  const text = isSaidByText(node) ? node.textContent.trim() : "";
  return JSON.stringify([node.tagName, text, node.form?.getAttribute("action"), ...ATTRIBUTES.map((name) => node.getAttribute(name))]);
}

const alike = (key, root) => findAll(`a, button, summary, ${REGIONS}`, root).filter((node) => keyOf(node) === key);

// The script gives the focus back only if nothing else, such as htmx, did; of several alike controls to the same one.
function holdFocus(part) {
  const node = document.activeElement;
  if (!part.contains(node) || node.id || node.matches("input, select, textarea")) return () => {};
  const key = keyOf(node);
  const before = alike(key, part);
  const at = before.indexOf(node);
  return (fresh) => {
    const after = alike(key, fresh);
    if (document.activeElement === document.body && (after.length === 1 || after.length === before.length)) after[after.length === 1 ? 0 : at]?.focus({ preventScroll: true });
  };
}

function holdScroll(part) {
  const tops = findAll(REGIONS, part).map(({ scrollTop, scrollLeft }) => [scrollTop, scrollLeft]);
  return (fresh) => {
    const regions = findAll(REGIONS, fresh);
    if (regions.length === tops.length) for (const [at, region] of regions.entries()) [region.scrollTop, region.scrollLeft] = tops[at];
  };
}

function holdDetails(part) {
  const open = new Map(findAll("details > summary", part).map((summary) => [summary.textContent, summary.parentElement.open]));
  return (fresh) => {
    for (const summary of findAll("details > summary", fresh)) summary.parentElement.open = open.get(summary.textContent) ?? summary.parentElement.open;
  };
}

// Returns a function that takes the new part, and brings the reader back there.
export function holdPlace(part) {
  const holds = [holdDetails(part), holdScroll(part), holdFocus(part)];
  return (fresh) => holds.forEach((restore) => restore(fresh));
}

// After an action of the reader other controls may do something else: only the focus of a link is kept.
function holdLink(part) {
  const link = document.activeElement;
  const href = part.contains(link) && !link.id && link.getAttribute("href");
  return (fresh) => href && document.activeElement === document.body && find(`[href="${CSS.escape(href)}"]`, fresh)?.focus({ preventScroll: true });
}

export const holdSwapped = (part) => (part.matches("[data-topics]") ? holdPlace(part) : holdLink(part));
