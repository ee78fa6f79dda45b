// Keyboard shortcuts: off inside inputs and dialogs, and off if the user disables them.

import { find, findAll } from "./dom.js";

const SETTING = "slipway.keys";
const actions = new Map();
const GO_WITHIN = 1500;
let pendingGo = -Infinity;

export const bindKey = (key, action) => actions.set(key, action);
const isOn = () => localStorage.getItem(SETTING) !== "off";

function isTyping(target) {
  // A dialog that was just closed may keep the focus on a field inside it for a moment.
  return target.closest("input, textarea, select, [contenteditable]")?.checkVisibility() || find("dialog[open]");
}

function go(key) {
  const link = find(`[data-go="${CSS.escape(key)}"]`);
  if (link) location.assign(link.href);
}

// Loaded when first needed: the scripts of a page stay within 40 KiB.
const openPalette = () => import("./palette.js").then((palette) => palette.openPalette());

function search() {
  const field = findAll("[data-search]").find((field) => field.checkVisibility());
  if (field) field.focus();
  else openPalette();
}

function onKey(event) {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target) || !isOn()) return;
  if (event.timeStamp - pendingGo < GO_WITHIN) {
    pendingGo = -Infinity;
    go(event.key);
    return;
  }
  if (event.key === "g") {
    pendingGo = event.timeStamp;
    return;
  }
  const action = actions.get(event.key);
  if (!action) return;
  event.preventDefault();
  action(event);
}

function wireSetting() {
  const box = document.getElementById("keys-on");
  if (!box) return;
  box.checked = isOn();
  box.addEventListener("change", () => localStorage.setItem(SETTING, box.checked ? "on" : "off"));
}

export function wireShortcuts() {
  document.addEventListener("keydown", onKey);
  wireSetting();
  bindKey("?", () => document.getElementById("help-dialog")?.showModal());
  bindKey("/", search);
  for (const key of "jk.") bindKey(key, () => import("./row-keys.js").then((rows) => rows.useKey(key)));
  find("[data-search-open]")?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    openPalette();
  });
}
