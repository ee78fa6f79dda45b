// Common handling after a part of a page was fetched, or failed.

import { h, find, shape } from "./dom.js";
import { showTimes } from "./timestamps.js";

function showFailure({ detail }) {
  // Live parts retry.
  if (detail.elt.matches("[data-topics]")) return;
  const text = detail.xhr.status === 403 ? "Access denied." : `Request failed (${detail.xhr.status}). Reload the page.`;
  find("main").prepend(h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text)));
}

export function wirePartialUpdates() {
  document.addEventListener("htmx:afterSwap", () => showTimes());
  document.addEventListener("htmx:responseError", showFailure);
}
