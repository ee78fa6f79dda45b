// Undo plan of a rollback, fetched anew each time its dialog opens.

import { h, find } from "./dom.js";

const UNCERTAIN = " (no answer from AWS yet; its result is checked first)";

export async function showUndoPlan(part) {
  const list = find("[data-changes]", part);
  const note = find("[data-note]", part);
  try {
    const response = await fetch(part.dataset.undoPlan, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(String(response.status));
    const plan = await response.json();
    list.replaceChildren(...plan.changes.map((change) => h("li", {}, change.words, change.certain ? null : UNCERTAIN, h("small", {}, ` step ${change.step}`))));
    note.textContent = plan.note;
  } catch {
    list.replaceChildren();
    note.textContent = "What was changed could not be read. Close this and open it again.";
  }
  note.hidden = !note.textContent;
}
