// Search box over everything: a dialog with a combobox, its options rendered by the server.

import { find, findAll } from "./dom.js";

const WAIT_MS = 120;
const dialog = document.getElementById("search-dialog");
const form = find("form", dialog);
const input = find("input", dialog);
const list = find("[role=listbox]", dialog);
const status = find("[role=status]", dialog);
let timer = 0;

const getOptions = () => findAll("[role=option]", list);
const getActive = () => find("[aria-selected=true]", list);

function select(option) {
  getActive()?.setAttribute("aria-selected", "false");
  if (!option) return input.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  option.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", option.id);
}

function show(html, query) {
  list.innerHTML = html;
  const options = getOptions();
  list.hidden = !options.length;
  input.setAttribute("aria-expanded", String(!list.hidden));
  select(options[0]);
  status.textContent = !query ? "" : options.length ? `${options.length} found` : `No match for “${query}”.`;
}

async function load() {
  const query = input.value.trim();
  let html = "";
  if (query) {
    try {
      const response = await fetch(`${form.dataset.hits}?q=${encodeURIComponent(query)}`, { credentials: "same-origin" });
      // After the end of the session the answer is the sign-in page; Enter leads there.
      if (!response.ok || response.redirected) return;
      html = await response.text();
    } catch {
      return;
    }
  }
  // An older answer may come after a newer one.
  if (input.value.trim() === query) show(html, query);
}

function onInput() {
  clearTimeout(timer);
  // Enter must not open a hit of the text before.
  select(null);
  timer = setTimeout(load, WAIT_MS);
}

function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const options = getOptions();
  if (!step || !options.length) return;
  event.preventDefault();
  const at = options.indexOf(getActive());
  select(options[(at < 0 && step < 0 ? -1 : at + step + options.length) % options.length] || options.at(-1));
}

function onSubmit(event) {
  const active = getActive();
  if (!active) return;
  event.preventDefault();
  location.assign(active.href);
}

input.addEventListener("input", onInput);
input.addEventListener("keydown", onKey);
form.addEventListener("submit", onSubmit);

export function openPalette() {
  if (!dialog.open) dialog.showModal();
  input.focus();
  input.select();
}
