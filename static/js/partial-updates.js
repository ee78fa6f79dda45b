// Common handling after a part of a page was fetched.

import { showTimes } from "./timestamps.js";

export function wirePartialUpdates() {
  document.addEventListener("htmx:afterSwap", () => showTimes());
}
