// Connect progress of a new delegate, fetched again after changes and at the expected time.

import { findAll, announce, find } from "./dom.js";
import { showTimes } from "./timestamps.js";

const place = find("[data-waiting-url]");
const shown = () => find("[data-waiting]", place);
let timer = 0;
// The connector that was chosen on this page, as a query.
let query = "";

// Fetches the progress again, and returns whether that worked.
async function refresh() {
  const response = await fetch(place.dataset.waitingUrl + query, { credentials: "same-origin" }).catch(() => null);
  if (!response?.ok || response.redirected) return false;
  const before = shown().outerHTML;
  const fetched = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-waiting]");
  if (fetched && fetched.outerHTML !== before) {
    const status = shown().dataset.status;
    shown().replaceWith(document.adoptNode(fetched));
    showTimes(place);
    markStep("connected" in fetched.dataset ? 3 : 2);
    if (fetched.dataset.status !== status) announce(find("strong", fetched).textContent);
  }
  watchClock();
  return true;
}

function markStep(number) {
  findAll(".wizard-steps li").forEach((step, at) => {
    if (at + 1 === number) step.setAttribute("aria-current", "step");
    else step.removeAttribute("aria-current");
  });
}

// No message is sent when a missing delegate is late, or when its service was read: the page fetches then.
function watchClock() {
  clearTimeout(timer);
  const left = Number(shown().dataset.refreshSeconds);
  if (left > 0) timer = setTimeout(refresh, (left + 1) * 1000);
}

place.addEventListener("submit", (event) => {
  if (!event.target.matches(".read-start")) return;
  event.preventDefault();
  query = `?${new URLSearchParams(new FormData(event.target))}`;
  refresh();
});

place.addEventListener("click", (event) => {
  if (!event.target.closest("[data-check-again]")) return;
  event.preventDefault();
  refresh();
});

place.addEventListener("topic-changed", ({ detail }) => {
  detail.read = refresh();
});
watchClock();
