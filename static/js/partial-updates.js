// Common handling of what a page sends, and after a part of it was fetched or failed.

import { h, find, shape } from "./dom.js";
import { showTimes } from "./timestamps.js";

function showFailure({ detail }) {
  // Live parts retry.
  if (detail.elt.matches("[data-topics]")) return;
  const text = detail.xhr.status === 403 ? "Access denied." : `Request failed (${detail.xhr.status}). Reload the page.`;
  find("main").prepend(h("div", { class: "message tone-failed", role: "alert" }, shape("s-failed", "icon mark"), h("div", {}, text)));
}

// A sign-in in another tab has changed the token of this browser.
const readToken = () => document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1];

function refreshToken({ target }) {
  const field = find("input[name=csrfmiddlewaretoken]", target);
  field?.setAttribute("value", readToken() ?? field.value);
}

function refreshRequestToken({ detail: { parameters } }) {
  if (parameters.csrfmiddlewaretoken) parameters.csrfmiddlewaretoken = readToken() ?? parameters.csrfmiddlewaretoken;
}

export function wirePartialUpdates() {
  document.addEventListener("submit", refreshToken, true);
  document.addEventListener("htmx:configRequest", refreshRequestToken);
  document.addEventListener("htmx:afterSwap", () => showTimes());
  document.addEventListener("htmx:responseError", showFailure);
}
