// Lists with something under way refresh themselves: each 3 s while looked at, never while hidden.

import { one } from "./dom.js";
import { showTimes } from "./times.js";

const EVERY = 3000;

function isBusy(list) {
  return list.querySelector("[data-open]") !== null;
}

function ask(list) {
  if (!document.hidden && isBusy(list) && window.htmx) window.htmx.trigger(list, "refresh");
}

export function keepFresh() {
  if (!one("[data-refresh]")) return;
  setInterval(() => ask(one("[data-refresh]")), EVERY);
  document.addEventListener("visibilitychange", () => ask(one("[data-refresh]")));
  document.addEventListener("htmx:afterSwap", () => showTimes());
}
