// Search box over everything: a dialog with a combobox, its options rendered by the server.

import { find, findAll, h, icon } from "./dom.js";

const WAIT_MS = 120;
const dialog = document.getElementById("search-dialog");
const form = find("form", dialog);
const input = find("input", dialog);
const list = find("[role=listbox]", dialog);
const status = find("[role=status]", dialog);
// On the page of an execution.
const logSearch = find("[data-log-search]");
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

// The last option on the page of an execution.
function makeLogOption(query) {
  const name = h("span", { class: "hit-name" }, "Search the log of this execution", query ? h("span", { class: "hit-detail" }, ` \u201c${query}\u201d`) : null);
  const href = `${location.pathname}?${new URLSearchParams({ find: query })}`;
  return h("a", { class: "hit", role: "option", id: "search-hit-log", "aria-selected": "false", tabindex: "-1", href, "data-search-log": true }, icon("search"), name);
}

function searchLog() {
  dialog.close();
  find('[data-tab="log"]').click();
  logSearch.value = input.value.trim();
  logSearch.dispatchEvent(new Event("input"));
  logSearch.focus();
}

function show(html, query) {
  list.innerHTML = html;
  if (logSearch) list.append(makeLogOption(query));
  const options = getOptions();
  list.hidden = !options.length;
  input.setAttribute("aria-expanded", String(!list.hidden));
  select(options[0]);
  const count = options.length - (logSearch ? 1 : 0);
  status.textContent = !query ? "" : count ? `${count} found` : `No match for “${query}”.`;
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
  if ("searchLog" in active.dataset) searchLog();
  else location.assign(active.href);
}

function onClick(event) {
  if (!event.target.closest("[data-search-log]") || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  searchLog();
}

input.addEventListener("input", onInput);
input.addEventListener("keydown", onKey);
form.addEventListener("submit", onSubmit);
list.addEventListener("click", onClick);

export function openPalette() {
  if (!dialog.open) dialog.showModal();
  input.focus();
  input.select();
  if (logSearch && !input.value) show("", "");
}
