// Common handling after a part of a page was fetched, or failed.

import { h, find, shape } from "./dom.js";
import { showTimes } from "./timestamps.js";

function showFailure({ detail: { elt, xhr } }) {
  if (xhr.status === 401) {
    import("./session-end.js").then((page) => page.showSessionEnd());
    return;
  }
  // Live parts retry.
  if (elt.matches("[data-topics]")) return;
  const text = xhr.status === 403 ? "Access denied." : `Request failed (${xhr.status}). Reload the page.`;
  find("main").prepend(h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text)));
}

function finishSwap() {
  showTimes();
  // Only somebody who is signed in is answered with a part.
  find(".session-end")?.remove();
}

export function wirePartialUpdates() {
  document.addEventListener("htmx:afterSwap", finishSwap);
  document.addEventListener("htmx:responseError", showFailure);
}
