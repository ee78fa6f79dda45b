// Scope switcher: arrow keys move through it, and the server searches long lists.

import { findAll, announce, find } from "./dom.js";
import { bindKey } from "./shortcuts.js";

const WAIT_MS = 150;

function stops(menu) {
  return findAll("[data-scope-search], .menu-body a", menu);
}

function move(menu, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !menu.open) return;
  event.preventDefault();
  const links = stops(menu);
  const at = links.indexOf(document.activeElement);
  links[(at + step + links.length) % links.length]?.focus();
}

function begin(menu) {
  if (!menu.open) return;
  (find("[data-scope-search]", menu) || find("[aria-current]", menu) || stops(menu)[0])?.focus();
}

async function loadChoices(menu, search) {
  const query = search.value.trim();
  let text;
  try {
    const address = `${search.dataset.scopeSearch}?q=${encodeURIComponent(query)}`;
    const response = await fetch(address, { credentials: "same-origin", headers: { "HX-Request": "true" } });
    if (!response.ok) return;
    text = await response.text();
  } catch {
    return;
  }
  // An older answer may come after a newer one.
  if (search.value.trim() !== query) return;
  const list = find("[data-scope-list]", menu);
  list.innerHTML = text;
  announce(`${findAll("a", list).length} found`);
}

function wireSearch(menu) {
  const search = find("[data-scope-search]", menu);
  if (!search) return;
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => loadChoices(menu, search), WAIT_MS);
  });
  search.form.addEventListener("submit", (event) => {
    const first = find("[data-scope-list] a", menu);
    if (!first) return;
    event.preventDefault();
    location.assign(first.href);
  });
}

export function wireScopeSwitcher() {
  const menu = find("[data-scope-menu]");
  if (!menu) return;
  menu.addEventListener("toggle", () => begin(menu));
  menu.addEventListener("keydown", (event) => move(menu, event));
  wireSearch(menu);
  bindKey("o", () => {
    menu.open = true;
  });
}
