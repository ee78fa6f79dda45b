// Connect progress of a new delegate, fetched again after changes and at the expected time.

import { all, announce, one } from "./dom.js";
import { showTimes } from "./timestamps.js";

const place = one("[data-waiting-url]");
const shown = () => one("[data-waiting]", place);
let timer = 0;

// Fetches the progress again, and returns whether that worked.
async function refresh() {
  const response = await fetch(place.dataset.waitingUrl, { credentials: "same-origin" }).catch(() => null);
  if (!response?.ok || response.redirected) return false;
  const before = shown().outerHTML;
  const found = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-waiting]");
  if (found && found.outerHTML !== before) {
    const status = shown().dataset.status;
    shown().replaceWith(document.adoptNode(found));
    showTimes(place);
    markStep("here" in found.dataset ? 3 : 2);
    if (found.dataset.status !== status) announce(one("strong", found).textContent);
  }
  watchClock();
  return true;
}

function markStep(number) {
  all(".wizard-steps li").forEach((step, at) => {
    if (at + 1 === number) step.setAttribute("aria-current", "step");
    else step.removeAttribute("aria-current");
  });
}

// The moment from which a delegate that is not here is late: nothing is sent then, so it is asked for once.
function watchClock() {
  clearTimeout(timer);
  const left = Number(shown().dataset.secondsLeft);
  if (left > 0) timer = setTimeout(refresh, (left + 1) * 1000);
}

place.addEventListener("click", (event) => {
  if (!event.target.closest("[data-look-again]")) return;
  event.preventDefault();
  refresh();
});

place.addEventListener("news", ({ detail }) => {
  detail.read = refresh();
});
watchClock();
