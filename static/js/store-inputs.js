// Inputs of a manifest, limited to those of its store.

import { findAll } from "./dom.js";

const CHOICE = "[data-store], [data-cell=store] select";

function show(choice) {
  const row = choice.closest("[data-row]");
  for (const input of findAll("[data-stores]", row)) input.hidden = !input.dataset.stores.split(" ").includes(choice.value);
}

// On the page, so that it works for rows that are swapped in later. A browser may restore a choice on reload.
document.addEventListener("change", ({ target }) => target.matches(CHOICE) && show(target));
for (const choice of findAll(CHOICE)) show(choice);
