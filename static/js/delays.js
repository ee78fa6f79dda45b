// Why work waits: fetched again while the page is visible and its work is open.

import { announce, find } from "./dom.js";

const POLL_INTERVAL = 10_000;

// Replaces the part by a fresh one; a failed fetch leaves it as it is.
async function refresh(part) {
  const response = await fetch(part.dataset.delays, { credentials: "same-origin" }).catch(() => null);
  if (!response?.ok || response.redirected) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const made = find("#delays", fresh);
  // Whoever is about to press something here is not disturbed.
  if (!made || part.contains(document.activeElement)) return;
  const begins = part.hidden && !made.hidden;
  part.replaceWith(document.adoptNode(made));
  if (begins) announce(made.textContent.trim());
}

const timer = setInterval(async () => {
  const part = find("#delays");
  if (!part?.dataset.delays) clearInterval(timer);
  else if (!document.hidden) await refresh(part);
}, POLL_INTERVAL);
