// Rows of a form, added from a template and removed; the server accepts any number of them, with gaps.

import { announce, find } from "./dom.js";

function add(box) {
  const total = find("[data-rows-total]", box);
  const row = find("[data-rows-template]", box).innerHTML.replaceAll("__prefix__", total.value);
  total.value = Number(total.value) + 1;
  const list = find("[data-rows-list]", box);
  list.insertAdjacentHTML("beforeend", row);
  const added = list.lastElementChild;
  box.dispatchEvent(new CustomEvent("rows:added", { bubbles: true, detail: added }));
  find("input:not([type=hidden]), select, textarea", added)?.focus();
}

function remove(button, box) {
  const row = button.closest("[data-row]");
  const next = find("input, select, textarea", row.nextElementSibling || document.createElement("i")) || find("[data-rows-add]", box);
  row.remove();
  next.focus();
  box.dispatchEvent(new CustomEvent("rows:removed", { bubbles: true }));
  announce("Removed");
}

// On the page, so that it works for rows that are swapped in later.
document.addEventListener("click", (event) => {
  const box = event.target.closest("[data-rows]");
  if (!box) return;
  if (event.target.closest("[data-rows-add]")) add(box);
  const button = event.target.closest("[data-rows-remove]");
  if (button) remove(button, box);
});
