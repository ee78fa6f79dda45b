// The list of delegates: rows change where they stand; a delegate that is new brings the list anew.

import { WORDS, watchDelegates } from "./delegate-socket.js";
import { all, announce, one } from "./dom.js";
import { showTimes } from "./times.js";

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

function put(old, made, node) {
  const href = focusedHref(old);
  old.replaceWith(made);
  showTimes(node || made);
  if (href) one(`a[href="${CSS.escape(href)}"]`, node || made)?.focus();
}

function change(told) {
  const old = rowOf(told.id);
  if (!old) return;
  const made = parsed(told.row);
  const before = old.dataset.status;
  put(old, made);
  if (before === told.status) return;
  made.classList.add("changed");
  announce(`${told.name}: ${one(".status", made).textContent.trim()}`);
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
  if (found) put(one("[data-delegates]"), document.adoptNode(found));
}

async function take(changed) {
  for (const told of changed) {
    if (told.status === null) rowOf(told.id)?.remove();
    else change(told);
  }
  const unknown = changed.filter((told) => told.status && !rowOf(told.id) && elsewhere.get(told.id) !== told.status);
  const isEmptied = !all("tr[data-delegate]").length;
  if (!unknown.length && !isEmptied) return;
  await look();
  for (const told of unknown) if (!rowOf(told.id)) elsewhere.set(told.id, told.status);
}

function say(status) {
  const chip = one("[data-connection]");
  chip.hidden = false;
  chip.dataset.connection = status;
  chip.textContent = WORDS[status];
}

watchDelegates({ onChange: take, onLook: look, onStatus: say });
