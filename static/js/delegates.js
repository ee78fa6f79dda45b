// List of delegates: changed rows are replaced in place; a new delegate reloads the list.

import { WORDS, watchDelegates } from "./delegate-socket.js";
import { all, announce, one } from "./dom.js";
import { showTimes } from "./timestamps.js";

// Delegates that are not on this page, with the status for which that was found out.
const elsewhere = new Map();
const rowOf = (id) => one(`tr[data-delegate="${CSS.escape(id)}"]`);

function parsed(text) {
  const holder = document.createElement("template");
  holder.innerHTML = text;
  return holder.content.firstElementChild;
}

function focusedHref(node) {
  return node.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
}

function put(old, made) {
  const href = focusedHref(old);
  old.replaceWith(made);
  showTimes(made);
  if (href) one(`a[href="${CSS.escape(href)}"]`, made)?.focus();
}

const statuses = () => new Map(all("tr[data-delegate]").map((row) => [row.dataset.delegate, row.dataset.status]));

// However a change was learnt: by the socket, or by a look at the list.
function say(before) {
  const changed = all("tr[data-delegate]").filter((row) => (before.get(row.dataset.delegate) ?? row.dataset.status) !== row.dataset.status);
  for (const row of changed) row.classList.add("changed");
  const words = changed.map((row) => `${one(".name", row).textContent}: ${one(".status", row).textContent.trim()}`);
  if (words.length) announce(words.join(", "));
}

function change(told) {
  const old = rowOf(told.id);
  if (old) put(old, parsed(told.row));
}

async function look() {
  let text;
  try {
    const response = await fetch(location.href, { credentials: "same-origin" });
    if (!response.ok || response.redirected) return;
    text = await response.text();
  } catch {
    return;
  }
  const found = one("[data-delegates]", new DOMParser().parseFromString(text, "text/html"));
  if (!found) return;
  const before = statuses();
  put(one("[data-delegates]"), document.adoptNode(found));
  say(before);
}

async function take(changed) {
  const before = statuses();
  for (const told of changed) {
    if (told.status === null) rowOf(told.id)?.remove();
    else change(told);
  }
  say(before);
  const unknown = changed.filter((told) => told.status && !rowOf(told.id) && elsewhere.get(told.id) !== told.status);
  const isEmptied = !all("tr[data-delegate]").length;
  if (!unknown.length && !isEmptied) return;
  await look();
  for (const told of unknown) if (!rowOf(told.id)) elsewhere.set(told.id, told.status);
}

function showConnection(status) {
  const chip = one("[data-connection]");
  chip.hidden = false;
  chip.dataset.connection = status;
  chip.textContent = WORDS[status];
}

watchDelegates({ onChange: take, onLook: look, onStatus: showConnection });
