// Common handling after a part of a page was fetched.

import { find } from "./dom.js";
import { showTimes } from "./timestamps.js";

let focused = null;

// htmx restores the focus only of what has an id.
function keepFocus({ detail: { target } }) {
  const link = document.activeElement;
  focused = target.contains(link) && !link.id && link.getAttribute("href");
}

function finishSwap({ target }) {
  showTimes();
  const link = focused && document.activeElement === document.body && find(`[href="${CSS.escape(focused)}"]`, target);
  if (link) link.focus({ preventScroll: true });
}

// A part may fail before the module that says so is there.
const tellFailure = (event) => import("./failed-updates.js").then((page) => page.showFailure(event));

export function wirePartialUpdates() {
  for (const name of ["htmx:responseError", "htmx:sendError"]) document.addEventListener(name, tellFailure);
  document.addEventListener("htmx:beforeSwap", keepFocus);
  document.addEventListener("htmx:afterSwap", finishSwap);
}
