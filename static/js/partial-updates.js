// Common handling after a part of a page was fetched.

import { showTimes } from "./timestamps.js";

let restorePlace = null;
let places = null;

// A part may fail before the module that says so is there.
const tellFailure = (event) => import("./failed-updates.js").then((page) => page.showFailure(event));

// Holds the place of the reader in a part; the result restores it in the new part.
export const holdPlace = (part) => places?.holdPlace(part) ?? (() => {});

const beginSwap = ({ detail: { target } }) => { restorePlace = places?.holdSwapped(target); };

function finishSwap({ target }) {
  showTimes();
  restorePlace?.(target);
}

export function wirePartialUpdates() {
  for (const name of ["htmx:responseError", "htmx:sendError"]) document.addEventListener(name, tellFailure);
  document.addEventListener("htmx:beforeSwap", beginSwap);
  document.addEventListener("htmx:afterSwap", finishSwap);
  // A moment later: the scripts of a page stay within 40 KiB.
  requestAnimationFrame(() => import("./reader-place.js").then((module) => { places = module; }));
}
