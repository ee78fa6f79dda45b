// Notices about a part of a page that was not fetched. Loaded before one fails, as the server may be out of reach then.

import { h, find, shape } from "./dom.js";

let failure = null;

export function showFailure({ detail: { elt, xhr } }) {
  if (xhr.status === 401) {
    import("./session-end.js").then((page) => page.showSessionEnd());
    return;
  }
  // Live parts retry.
  if (elt.matches("[data-topics]")) return;
  const text = { 0: "Slipway did not answer. Try again.", 403: "Access denied." }[xhr.status] || `Request failed (${xhr.status}). Reload the page.`;
  failure?.remove();
  failure = h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text));
  find("main").prepend(failure);
}

// Only somebody who is signed in is answered with a part.
document.addEventListener("htmx:afterSwap", () => find(".session-end")?.remove());
