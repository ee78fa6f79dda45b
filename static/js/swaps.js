// What every page does after a part of it was read again, or could not be.

import { h, one, shape } from "./dom.js";
import { showTimes } from "./times.js";

function sayFailure({ detail }) {
  // These are read again by themselves.
  if (detail.elt.matches("[data-topics]")) return;
  const text = detail.xhr.status === 403 ? "Access denied here." : `That did not work (${detail.xhr.status}). Load the page again.`;
  one("main").prepend(h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text)));
}

export function tendSwaps() {
  document.addEventListener("htmx:afterSwap", () => showTimes());
  document.addEventListener("htmx:responseError", sayFailure);
}
