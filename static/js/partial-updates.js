// Common handling after a part of a page was fetched, or failed.

import { h, one, shape } from "./dom.js";
import { showTimes } from "./timestamps.js";

function sayFailure({ detail }) {
  // These are read again by themselves.
  if (detail.elt.matches("[data-topics]")) return;
  const text = detail.xhr.status === 403 ? "Access denied here." : `That did not work (${detail.xhr.status}). Load the page again.`;
  one("main").prepend(h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text)));
}

export function wirePartialUpdates() {
  document.addEventListener("htmx:afterSwap", () => showTimes());
  document.addEventListener("htmx:responseError", sayFailure);
}
