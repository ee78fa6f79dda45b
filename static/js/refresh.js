// Lists with something under way refresh themselves: each 3 s while looked at, never while hidden.

import { h, one, shape } from "./dom.js";
import { showTimes } from "./times.js";

const EVERY = 3000;

function ask() {
  const list = one("[data-refresh]");
  const isBusy = list?.querySelector("[data-open]");
  if (isBusy && !document.hidden && window.htmx) window.htmx.trigger(list, "refresh");
}

function sayFailure({ detail }) {
  if (detail.elt.matches("[data-refresh]")) return;
  const text = detail.xhr.status === 403 ? "You may not do this here." : `That did not work (${detail.xhr.status}). Load the page again.`;
  one("main").prepend(h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text)));
}

export function keepFresh() {
  document.addEventListener("htmx:afterSwap", () => showTimes());
  document.addEventListener("htmx:responseError", sayFailure);
  if (!one("[data-refresh]")) return;
  setInterval(ask, EVERY);
  document.addEventListener("visibilitychange", ask);
}
