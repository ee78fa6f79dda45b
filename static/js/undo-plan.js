// Undo plan of a rollback, fetched each time its dialog opens.

import { findAll, h, find } from "./dom.js";

const UNCERTAIN = " (no answer from AWS yet; its result is checked first)";

async function show(part) {
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

export function wireUndoPlans() {
  const shown = (entries) => {
    for (const { target } of entries) if (target.open) findAll("[data-undo-plan]", target).forEach(show);
  };
  for (const part of findAll("dialog [data-undo-plan]")) {
    new MutationObserver(shown).observe(part.closest("dialog"), { attributeFilter: ["open"] });
  }
}
