// Undo plan of a rollback, fetched anew each time its dialog opens.

import { h, find } from "./dom.js";

const UNCERTAIN = " (no answer from AWS yet; its result is checked first)";

export async function showUndoPlan(part) {
  const list = find("[data-changes]", part);
  const show = (changes, note) => {
    list.replaceChildren(...changes.map((change) => h("li", {}, change.words, change.certain ? null : UNCERTAIN, h("small", {}, ` step ${change.step}`))));
    find("[data-note]", part).textContent = note;
    find("[data-note]", part).hidden = !note;
  };
  // A plan of an earlier opening may be outdated.
  show([], "Loading changes\u2026");
  const plan = await readPlan(part.dataset.undoPlan);
  show(plan.changes, plan.note);
}

async function readPlan(address) {
  try {
    const response = await fetch(address, { headers: { Accept: "application/json" } });
    if (response.ok) return await response.json();
  } catch {
    // As without an answer.
  }
  return { changes: [], note: "What was changed could not be read. Close this and open it again." };
}
