// List of delegates: marks and announces those whose status changed when the list is fetched again.

import { findAll, announce, find } from "./dom.js";

const statuses = () => new Map(findAll("tr[data-delegate]").map((row) => [row.dataset.delegate, row.dataset.status]));
let before = statuses();

document.addEventListener("htmx:afterSettle", () => {
  const changed = findAll("tr[data-delegate]").filter((row) => (before.get(row.dataset.delegate) ?? row.dataset.status) !== row.dataset.status);
  before = statuses();
  for (const row of changed) row.classList.add("changed");
  const words = changed.map((row) => `${find(".name", row).textContent}: ${find(".status", row).textContent.trim()}`);
  if (words.length) announce(words.join(", "));
});
