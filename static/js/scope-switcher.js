// Scope switcher: arrow keys move through it, and the server searches long lists.

import { all, announce, one } from "./dom.js";
import { bindKey } from "./shortcuts.js";

const WAIT_MS = 150;

function stops(menu) {
  return all("[data-scope-search], .menu-body a", menu);
}

function move(menu, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !menu.open) return;
  event.preventDefault();
  const found = stops(menu);
  const at = found.indexOf(document.activeElement);
  found[(at + step + found.length) % found.length]?.focus();
}

function begin(menu) {
  if (!menu.open) return;
  (one("[data-scope-search]", menu) || one("[aria-current]", menu) || stops(menu)[0])?.focus();
}

async function look(menu, search) {
  const sought = search.value.trim();
  let text;
  try {
    const address = `${search.dataset.scopeSearch}?q=${encodeURIComponent(sought)}`;
    const response = await fetch(address, { credentials: "same-origin", headers: { "HX-Request": "true" } });
    if (!response.ok) return;
    text = await response.text();
  } catch {
    return;
  }
  // An older answer may come after a newer one.
  if (search.value.trim() !== sought) return;
  const list = one("[data-scope-list]", menu);
  list.innerHTML = text;
  announce(`${all("a", list).length} found`);
}

function wireSearch(menu) {
  const search = one("[data-scope-search]", menu);
  if (!search) return;
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => look(menu, search), WAIT_MS);
  });
  search.form.addEventListener("submit", (event) => {
    const first = one("[data-scope-list] a", menu);
    if (!first) return;
    event.preventDefault();
    location.assign(first.href);
  });
}

export function wireScopeSwitcher() {
  const menu = one("[data-scope-menu]");
  if (!menu) return;
  menu.addEventListener("toggle", () => begin(menu));
  menu.addEventListener("keydown", (event) => move(menu, event));
  wireSearch(menu);
  bindKey("o", () => {
    menu.open = true;
  });
}
